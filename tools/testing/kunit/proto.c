// SPDX-License-Identifier: GPL-2.0-only
/* The wire format helpers of ipoib_proto.h; each test names its RFC clause. */
#include <kunit/test.h>
#include <linux/in6.h>
#include <net/if_inet6.h>
#include <net/ip.h>

#include "ipoib_proto.h"

static const union ib_gid gid = { .raw = {
	0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x50, 0x54, 0x00, 0xff, 0xfe, 0x00, 0x00, 0x01,
} };

/*
 * Link-layer addresses: RFC 4391 9.1.1 (8 bits reserved, 24 bits QPN, 16 octets
 * GID), RFC 4755 3.1 (the reserved octet carries capabilities)
 */

static const struct addr {
	u8 flags;
	u32 qpn;
	u8 head[4];
	bool rc;
} addrs[] = {
	{ 0, 0, { 0, 0, 0, 0 }, false },
	{ 0, 1, { 0, 0, 0, 1 }, false },
	{ 0, 0xffffff, { 0, 0xff, 0xff, 0xff }, false },
	{ IPOIB_ADDR_FLAG_RC, 0x123456, { 0x80, 0x12, 0x34, 0x56 }, true },
	{ IPOIB_ADDR_FLAG_UC, 0x123456, { 0x40, 0x12, 0x34, 0x56 }, false },
	{ 0xff, 0x80, { 0xff, 0, 0, 0x80 }, true },
	{ 0x7f, 0x800000, { 0x7f, 0x80, 0, 0 }, false },
	/* more than 24 bits never reach the flags */
	{ 0, 0xff000001, { 0, 0, 0, 1 }, false },
	{ 0, 0x80000000, { 0, 0, 0, 0 }, false },
};

static void addr_desc(const struct addr *a, char *to)
{
	snprintf(to, KUNIT_PARAM_DESC_SIZE, "flags %02x QPN %x", a->flags, a->qpn);
}

KUNIT_ARRAY_PARAM(addr, addrs, addr_desc);

static void rfc4391_9_1_1_address(struct kunit *test)
{
	const struct addr *a = test->param_value;
	u8 buf[INFINIBAND_ALEN + 3];
	u8 *lladdr = buf + 1;	/* alignment is not promised */

	memset(buf, 0xa5, sizeof(buf));
	ipoib_addr_set(lladdr, a->flags, a->qpn, &gid);
	KUNIT_EXPECT_MEMEQ(test, lladdr, a->head, 4);
	KUNIT_EXPECT_MEMEQ(test, lladdr + 4, gid.raw, 16);
	KUNIT_EXPECT_EQ(test, buf[0], 0xa5);
	KUNIT_EXPECT_EQ(test, buf[1 + INFINIBAND_ALEN], 0xa5);
	KUNIT_EXPECT_EQ(test, ipoib_addr_qpn(lladdr), a->qpn & 0xffffff);
	KUNIT_EXPECT_MEMEQ(test, ipoib_addr_gid(lladdr)->raw, gid.raw, 16);
	KUNIT_EXPECT_EQ(test, ipoib_addr_rc(lladdr), a->rc);
	KUNIT_EXPECT_FALSE(test, ipoib_addr_multicast(lladdr));
}

/* RFC 4391 4: a group's GID begins with ff, whatever the QPN in front of it. */
static void rfc4391_4_is_multicast(struct kunit *test)
{
	u8 lladdr[INFINIBAND_ALEN] = {};
	int first;

	for (first = 0; first < 256; first++) {
		lladdr[4] = first;
		KUNIT_EXPECT_EQ(test, ipoib_addr_multicast(lladdr), first == 0xff);
	}
	memset(lladdr, 0xff, 4);
	lladdr[4] = 0xfe;
	KUNIT_EXPECT_FALSE(test, ipoib_addr_multicast(lladdr));
}

/*
 * Groups: RFC 4391 4 (ff1<scope>:<signature>:<P_Key>:...), 4.1 and 5 (broadcast)
 */

static const u16 pkeys[] = { 0x0000, 0x0001, 0x7fff, 0x8000, 0x8001, 0xbeef, 0xffff };

static void pkey_desc(const u16 *pkey, char *to)
{
	snprintf(to, KUNIT_PARAM_DESC_SIZE, "P_Key %04x", *pkey);
}

KUNIT_ARRAY_PARAM(pkey, pkeys, pkey_desc);

/* The full-membership bit is always set in a group's GID. */
static void rfc4391_4_1_broadcast(struct kunit *test)
{
	u16 pkey = *(const u16 *)test->param_value;
	u8 want[INFINIBAND_ALEN] = {
		0x00, 0xff, 0xff, 0xff,
		0xff, 0x12, 0x40, 0x1b, pkey >> 8 | 0x80, pkey & 0xff,
		0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
	};
	u8 lladdr[INFINIBAND_ALEN];
	const union ib_gid *mgid;

	memset(lladdr, 0xa5, sizeof(lladdr));
	ipoib_broadcast_addr(lladdr, pkey);
	KUNIT_EXPECT_MEMEQ(test, lladdr, want, sizeof(want));
	mgid = ipoib_addr_gid(lladdr);
	KUNIT_EXPECT_EQ(test, ipoib_mgid_signature(mgid), (u16)IPOIB_SIG_IPV4);
	KUNIT_EXPECT_EQ(test, ipoib_mgid_pkey(mgid), (u16)(pkey | 0x8000));
	KUNIT_EXPECT_TRUE(test, ipoib_addr_multicast(lladdr));
}

/* Only the two octets of the P_Key change. */
static void rfc4391_4_pkey_bytes(struct kunit *test)
{
	u16 pkey = *(const u16 *)test->param_value;
	union ib_gid mgid, want;

	memset(&mgid, 0x5a, sizeof(mgid));
	want = mgid;
	want.raw[4] = pkey >> 8 | 0x80;
	want.raw[5] = pkey & 0xff;
	ipoib_mgid_set_pkey(&mgid, pkey);
	KUNIT_EXPECT_MEMEQ(test, mgid.raw, want.raw, 16);
	KUNIT_EXPECT_EQ(test, ipoib_mgid_pkey(&mgid), (u16)(pkey | 0x8000));
}

/*
 * The stack maps IP groups by the interface's broadcast address; what comes out
 * must be what the driver's helpers take for a group of that partition.
 */
static const struct group4 {
	u8 ip[4];
	u8 tail[4];
} groups4[] = {
	{ { 224, 0, 0, 1 }, { 0x00, 0, 0, 1 } },
	{ { 239, 255, 255, 255 }, { 0x0f, 0xff, 0xff, 0xff } },
	/* 28 bits: the class D prefix is not among them */
	{ { 232, 1, 2, 3 }, { 0x08, 1, 2, 3 } },
};

static void group4_desc(const struct group4 *g, char *to)
{
	snprintf(to, KUNIT_PARAM_DESC_SIZE, "%pI4", g->ip);
}

KUNIT_ARRAY_PARAM(group4, groups4, group4_desc);

static void rfc4391_4_ipv4_group(struct kunit *test)
{
	const struct group4 *g = test->param_value;
	u8 broadcast[INFINIBAND_ALEN], lladdr[INFINIBAND_ALEN];
	const union ib_gid *mgid = ipoib_addr_gid(lladdr);
	__be32 ip;

	memcpy(&ip, g->ip, sizeof(ip));
	ipoib_broadcast_addr(broadcast, 0x1234);
	ip_ib_mc_map(ip, broadcast, (char *)lladdr);
	KUNIT_EXPECT_TRUE(test, ipoib_addr_multicast(lladdr));
	KUNIT_EXPECT_EQ(test, ipoib_addr_qpn(lladdr), 0xffffffu);
	KUNIT_EXPECT_EQ(test, ipoib_mgid_signature(mgid), (u16)IPOIB_SIG_IPV4);
	KUNIT_EXPECT_EQ(test, ipoib_mgid_pkey(mgid), (u16)0x9234);
	KUNIT_EXPECT_EQ(test, mgid->raw[1], 0x12);
	KUNIT_EXPECT_MEMEQ(test, mgid->raw + 12, g->tail, 4);
}

static const u8 groups6[][16] = {
	{ 0xff, 0x02, [15] = 1 },
	{ 0xff, 0x02, [11] = 1, 0xff, 0x12, 0x34, 0x56 },
	{ 0xff, 0x05, [15] = 2 },
	{ 0xff, 0x3e, 0x00, 0x40, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff },
};

static void group6_desc(const u8 (*ip)[16], char *to)
{
	snprintf(to, KUNIT_PARAM_DESC_SIZE, "%pI6c", ip);
}

KUNIT_ARRAY_PARAM(group6, groups6, group6_desc);

/* The low 80 bits of the IPv6 group. */
static void rfc4391_4_ipv6_group(struct kunit *test)
{
	u8 broadcast[INFINIBAND_ALEN], lladdr[INFINIBAND_ALEN];
	const union ib_gid *mgid = ipoib_addr_gid(lladdr);
	struct in6_addr ip;

	memcpy(&ip, test->param_value, sizeof(ip));
	ipoib_broadcast_addr(broadcast, 0x7fff);
	ipv6_ib_mc_map(&ip, broadcast, (char *)lladdr);
	KUNIT_EXPECT_TRUE(test, ipoib_addr_multicast(lladdr));
	KUNIT_EXPECT_EQ(test, ipoib_addr_qpn(lladdr), 0xffffffu);
	KUNIT_EXPECT_EQ(test, ipoib_mgid_signature(mgid), (u16)IPOIB_SIG_IPV6);
	KUNIT_EXPECT_EQ(test, ipoib_mgid_pkey(mgid), (u16)0xffff);
	KUNIT_EXPECT_MEMEQ(test, mgid->raw + 6, ip.s6_addr + 6, 10);
}

/*
 * Frames: RFC 4391 6 (4 octets: type, reserved), 7 (MTU)
 */

static const struct ethertype {
	u16 type;
	bool known;
} protos[] = {
	{ 0x0800, true }, { 0x86dd, true }, { 0x0806, true }, { 0x8035, true },
	{ ETH_P_TIPC, true },
	{ 0, false }, { 0x0008, false }, { 0x0801, false }, { 0x8100, false },
	{ 0x8847, false }, { 0xffff, false }, { 0xdd86, false },
};

static void proto_desc(const struct ethertype *p, char *to)
{
	snprintf(to, KUNIT_PARAM_DESC_SIZE, "type %04x", p->type);
}

KUNIT_ARRAY_PARAM(proto, protos, proto_desc);

static void rfc4391_6_type(struct kunit *test)
{
	const struct ethertype *p = test->param_value;

	KUNIT_EXPECT_EQ(test, ipoib_proto_known(cpu_to_be16(p->type)), p->known);
}

static void rfc4391_6_layout(struct kunit *test)
{
	struct ipoib_hdr hdr = { .proto = cpu_to_be16(ETH_P_IPV6) };
	static const u8 wire[4] = { 0x86, 0xdd, 0, 0 };

	KUNIT_EXPECT_EQ(test, sizeof(hdr), 4UL);
	KUNIT_EXPECT_MEMEQ(test, &hdr, wire, 4);
	KUNIT_EXPECT_EQ(test, sizeof(struct ipoib_addr), (size_t)INFINIBAND_ALEN);
	KUNIT_EXPECT_EQ(test, IPOIB_HARD_LEN, 24u);
	KUNIT_EXPECT_EQ(test, IPOIB_UD_HEAD_LEN, 44u);
}

static const u32 ib_mtus[] = { 256, 512, 1024, 2048, 4096 };

static void mtu_desc(const u32 *mtu, char *to)
{
	snprintf(to, KUNIT_PARAM_DESC_SIZE, "IB MTU %u", *mtu);
}

KUNIT_ARRAY_PARAM(mtu, ib_mtus, mtu_desc);

static void rfc4391_7_mtu(struct kunit *test)
{
	u32 mtu = *(const u32 *)test->param_value;

	KUNIT_EXPECT_EQ(test, ipoib_ud_mtu(mtu), mtu - 4);
	KUNIT_EXPECT_GE(test, ipoib_ud_mtu(mtu), IPOIB_MIN_MTU);
}

/*
 * RFC 4755 5: connected mode; 64 KiB of buffer hold an MTU of 65520 and the header
 */
static void rfc4755_5_mtu(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, IPOIB_CM_MTU, 65520u);
	KUNIT_EXPECT_EQ(test, IPOIB_CM_BUF_LEN, 65524u);
	KUNIT_EXPECT_LE(test, IPOIB_CM_BUF_LEN, 65536u);
	KUNIT_EXPECT_GT(test, IPOIB_CM_MTU, ipoib_ud_mtu(4096));
}

/*
 * Service IDs: RFC 4755 3.5 (octet 01, four reserved octets, 24 bits QPN)
 */

static const struct sid {
	u64 prefix;
	u32 qpn;
	u8 wire[8];
} sids[] = {
	{ IPOIB_SID_RFC4755, 0x123456, { 0x01, 0, 0, 0, 0, 0x12, 0x34, 0x56 } },
	{ IPOIB_SID_FIELD, 0x123456, { 0x10, 0, 0, 0, 0, 0x12, 0x34, 0x56 } },
	{ IPOIB_SID_RFC4755, 0, { 0x01, 0, 0, 0, 0, 0, 0, 0 } },
	{ IPOIB_SID_FIELD, 0xffffff, { 0x10, 0, 0, 0, 0, 0xff, 0xff, 0xff } },
	/* more than 24 bits never reach the reserved octets */
	{ IPOIB_SID_RFC4755, 0xff000001, { 0x01, 0, 0, 0, 0, 0, 0, 1 } },
};

static void sid_desc(const struct sid *s, char *to)
{
	snprintf(to, KUNIT_PARAM_DESC_SIZE, "%llx QPN %x", s->prefix, s->qpn);
}

KUNIT_ARRAY_PARAM(sid, sids, sid_desc);

static void rfc4755_3_5_service_id(struct kunit *test)
{
	const struct sid *s = test->param_value;
	__be64 sid = ipoib_service_id(s->prefix, s->qpn);

	KUNIT_EXPECT_MEMEQ(test, &sid, s->wire, 8);
}

/*
 * Private data: RFC 4755 6 (8 bits reserved, 24 bits QPN, 32 bits receive MTU in
 * octets, which by 5.1 includes the 4 octets of the IPoIB header)
 */

static const struct data {
	const char *name;
	u8 wire[8];
	u32 qpn;
	u32 mtu;
} datas[] = {
	{ "as filled", { 0, 0x12, 0x34, 0x56, 0, 0, 0xff, 0xf4 }, 0x123456, 65524 },
	{ "reserved octet set", { 0xff, 0, 0, 1, 0, 0, 0x08, 0 }, 1, 2048 },
	{ "room for one octet", { 0, 0, 0, 1, 0, 0, 0, 5 }, 1, 5 },
	{ "little endian", { 0, 0, 0, 1, 0xf4, 0xff, 0, 0 }, 1, 0xf4ff0000 },
	{ "all ones", { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff },
	  0xffffff, U32_MAX },
	{ "the sign bit", { 0, 0, 0, 1, 0x80, 0, 0, 0 }, 1, 0x80000000 },
	{ "QPN 0", { 0, 0, 0, 0, 0, 0, 0xff, 0xf4 }, 0, 65524 },
};

static void data_desc(const struct data *d, char *to)
{
	strscpy(to, d->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(data, datas, data_desc);

static void rfc4755_6_parse(struct kunit *test)
{
	const struct data *d = test->param_value;
	u32 qpn = 0xdead, mtu = 0xbeef;

	KUNIT_EXPECT_EQ(test, ipoib_cm_data_parse(d->wire, 8, &qpn, &mtu), 0);
	KUNIT_EXPECT_EQ(test, qpn, d->qpn);
	KUNIT_EXPECT_EQ(test, mtu, d->mtu);
}

/* A receive MTU that holds no octet behind the IPoIB header is no MTU. */
static void rfc4755_5_1_no_room(struct kunit *test)
{
	u8 wire[8] = { 0, 0, 0, 1 };
	u32 qpn, mtu;

	for (wire[7] = 0; wire[7] <= IPOIB_ENCAP_LEN; wire[7]++)
		KUNIT_EXPECT_EQ(test, ipoib_cm_data_parse(wire, 8, &qpn, &mtu), -EINVAL);
	KUNIT_EXPECT_EQ(test, ipoib_cm_data_parse(wire, 8, &qpn, &mtu), 0);
}

/* A REQ brings 92 octets, a REP 196; a peer may be wrong about that. */
static const u32 lengths[] = { 0, 1, 3, 4, 7, 8, 9, 91, 92, 196 };

static void length_desc(const u32 *len, char *to)
{
	snprintf(to, KUNIT_PARAM_DESC_SIZE, "%u octets", *len);
}

KUNIT_ARRAY_PARAM(length, lengths, length_desc);

/* The buffer has just that length: KASAN sees what is read behind it. */
static void rfc4755_6_length(struct kunit *test)
{
	u32 len = *(const u32 *)test->param_value, qpn = 0xdead, mtu = 0xbeef;
	static const u8 wire[8] = { 0, 0, 0, 7, 0, 0, 0xff, 0xf4 };
	u8 *buf = kunit_kzalloc(test, max(len, 1u), GFP_KERNEL);
	int err;

	KUNIT_ASSERT_NOT_NULL(test, buf);
	memcpy(buf, wire, min_t(u32, len, 8));
	err = ipoib_cm_data_parse(buf, len, &qpn, &mtu);
	KUNIT_EXPECT_EQ(test, err, len < 8 ? -EINVAL : 0);
	KUNIT_EXPECT_EQ(test, qpn, len < 8 ? 0xdead : 7u);
	KUNIT_EXPECT_EQ(test, mtu, len < 8 ? 0xbeef : 65524u);
	KUNIT_EXPECT_EQ(test, ipoib_cm_data_parse(NULL, len, &qpn, &mtu), -EINVAL);
}

static void rfc4755_6_fill(struct kunit *test)
{
	const struct data *d = test->param_value;
	u32 qpn, mtu;
	struct {
		struct ipoib_cm_data data;
		u8 guard;
	} __packed buf = { .guard = 0xa5 };

	KUNIT_EXPECT_EQ(test, sizeof(buf.data), 8UL);
	ipoib_cm_data_fill(&buf.data, 0xff000000 | d->qpn, d->mtu);
	KUNIT_EXPECT_EQ(test, ((u8 *)&buf)[0], 0);	/* reserved octet */
	KUNIT_EXPECT_MEMEQ(test, (u8 *)&buf + 1, d->wire + 1, 7);
	KUNIT_EXPECT_EQ(test, buf.guard, 0xa5);
	KUNIT_EXPECT_EQ(test, ipoib_cm_data_parse(&buf, sizeof(buf), &qpn, &mtu), 0);
	KUNIT_EXPECT_EQ(test, qpn, d->qpn);
	KUNIT_EXPECT_EQ(test, mtu, d->mtu);
}

static struct kunit_case proto_tests[] = {
	KUNIT_CASE_PARAM(rfc4391_9_1_1_address, addr_gen_params),
	KUNIT_CASE(rfc4391_4_is_multicast),
	KUNIT_CASE_PARAM(rfc4391_4_1_broadcast, pkey_gen_params),
	KUNIT_CASE_PARAM(rfc4391_4_pkey_bytes, pkey_gen_params),
	KUNIT_CASE_PARAM(rfc4391_4_ipv4_group, group4_gen_params),
	KUNIT_CASE_PARAM(rfc4391_4_ipv6_group, group6_gen_params),
	KUNIT_CASE_PARAM(rfc4391_6_type, proto_gen_params),
	KUNIT_CASE(rfc4391_6_layout),
	KUNIT_CASE_PARAM(rfc4391_7_mtu, mtu_gen_params),
	KUNIT_CASE(rfc4755_5_mtu),
	KUNIT_CASE_PARAM(rfc4755_3_5_service_id, sid_gen_params),
	KUNIT_CASE_PARAM(rfc4755_6_parse, data_gen_params),
	KUNIT_CASE(rfc4755_5_1_no_room),
	KUNIT_CASE_PARAM(rfc4755_6_length, length_gen_params),
	KUNIT_CASE_PARAM(rfc4755_6_fill, data_gen_params),
	{}
};

static struct kunit_suite proto_suite = {
	.name = "ipoib_proto",
	.test_cases = proto_tests,
};

kunit_test_suite(proto_suite);
