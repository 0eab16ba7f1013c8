/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Wire format of IP over InfiniBand and the pure helpers that go with it.
 *
 * Nothing in here touches a device: every function works on its arguments
 * alone, so that unit tests can call it with any input.
 */
#ifndef IPOIB_PROTO_H
#define IPOIB_PROTO_H

#include <linux/if_ether.h>
#include <linux/if_infiniband.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/unaligned.h>
#include <rdma/ib_verbs.h>

/* RFC 4391 clause 6: every IPoIB payload starts with this header. */
struct ipoib_hdr {
	__be16 proto;
	__be16 reserved;
} __packed;

/* RFC 4391 clause 9.1.1 and RFC 4755 clause 3.1: the 20 octets of a link-layer address. */
struct ipoib_addr {
	__be32 flags_qpn;	/* capability flags (8 bits), QPN (24 bits) */
	union ib_gid gid;
} __packed;

/* RFC 4755 clause 6: private data of a REQ and a REP. */
struct ipoib_cm_data {
	__be32 qpn;		/* reserved (8 bits), UD QPN (24 bits) */
	__be32 mtu;		/* receive MTU in octets, IPoIB header included */
} __packed;

#define IPOIB_ENCAP_LEN		((unsigned int)sizeof(struct ipoib_hdr))
#define IPOIB_PSEUDO_LEN	((unsigned int)sizeof(struct ipoib_addr))
#define IPOIB_HARD_LEN		(IPOIB_PSEUDO_LEN + IPOIB_ENCAP_LEN)
#define IPOIB_UD_HEAD_LEN	((unsigned int)sizeof(struct ib_grh) + IPOIB_ENCAP_LEN)

/* Limits of an IPoIB MTU in octets (the IPoIB header is not part of it). */
#define IPOIB_MIN_MTU		72u
#define IPOIB_CM_MTU		65520u
#define IPOIB_CM_BUF_LEN	(IPOIB_CM_MTU + IPOIB_ENCAP_LEN)

#define IPOIB_QPN_MASK		0x00ffffffu
#define IPOIB_ADDR_FLAG_RC	0x80u	/* RFC 4755 clause 3.1 */
#define IPOIB_ADDR_FLAG_UC	0x40u

#define IPOIB_PKEY_FULL		0x8000u

/*
 * Service IDs of the connected-mode listener: RFC 4755 clause 3.5 asks for the
 * IETF prefix 0x01; hosts in the field dial the prefix 0x10.
 */
#define IPOIB_SID_FIELD		0x1000000000000000ULL
#define IPOIB_SID_RFC4755	0x0100000000000000ULL

#define IPOIB_SIG_IPV4		0x401b
#define IPOIB_SIG_IPV6		0x601b

static inline u32 ipoib_addr_qpn(const u8 *lladdr)
{
	return get_unaligned_be32(lladdr) & IPOIB_QPN_MASK;
}

static inline const union ib_gid *ipoib_addr_gid(const u8 *lladdr)
{
	return (const union ib_gid *)(lladdr + 4);
}

/* Does the owner of this link-layer address accept RC connections? */
static inline bool ipoib_addr_rc(const u8 *lladdr)
{
	return lladdr[0] & IPOIB_ADDR_FLAG_RC;
}

static inline bool ipoib_addr_multicast(const u8 *lladdr)
{
	return lladdr[4] == 0xff;
}

static inline void ipoib_addr_set(u8 *lladdr, u8 flags, u32 qpn,
				  const union ib_gid *gid)
{
	put_unaligned_be32((u32)flags << 24 | (qpn & IPOIB_QPN_MASK), lladdr);
	memcpy(lladdr + 4, gid, sizeof(*gid));
}

static inline u16 ipoib_mgid_signature(const union ib_gid *mgid)
{
	return get_unaligned_be16(mgid->raw + 2);
}

static inline u16 ipoib_mgid_pkey(const union ib_gid *mgid)
{
	return get_unaligned_be16(mgid->raw + 4);
}

/* RFC 4391 clause 4: write the P_Key, with its full-membership bit, into a MGID. */
static inline void ipoib_mgid_set_pkey(union ib_gid *mgid, u16 pkey)
{
	put_unaligned_be16(pkey | IPOIB_PKEY_FULL, mgid->raw + 4);
}

/**
 * ipoib_broadcast_addr() - link-layer address of a partition's broadcast group
 * @lladdr: out, 20 octets
 * @pkey: P_Key of the partition; the full-membership bit is added
 *
 * RFC 4391 clause 5: scope 2 (link-local), signature 0x401b, all-ones group.
 */
static inline void ipoib_broadcast_addr(u8 *lladdr, u16 pkey)
{
	static const u8 base[INFINIBAND_ALEN] = {
		0x00, 0xff, 0xff, 0xff, 0xff, 0x12, 0x40, 0x1b, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff,
	};

	memcpy(lladdr, base, sizeof(base));
	put_unaligned_be16(pkey | IPOIB_PKEY_FULL, lladdr + 8);
}

static inline bool ipoib_proto_known(__be16 proto)
{
	return proto == htons(ETH_P_IP) || proto == htons(ETH_P_IPV6) ||
	       proto == htons(ETH_P_ARP) || proto == htons(ETH_P_RARP) ||
	       proto == htons(ETH_P_TIPC);
}

static inline __be64 ipoib_service_id(u64 prefix, u32 qpn)
{
	return cpu_to_be64(prefix | (qpn & IPOIB_QPN_MASK));
}

/* Largest IPoIB MTU on a UD path of @ib_mtu octets (RFC 4391 clause 7). */
static inline unsigned int ipoib_ud_mtu(unsigned int ib_mtu)
{
	return ib_mtu - IPOIB_ENCAP_LEN;
}

/**
 * ipoib_cm_data_parse() - read a peer's private data
 * @buf: private data of a REQ or REP
 * @len: its length in octets
 * @qpn: out, the peer's UD QPN
 * @mtu: out, the peer's receive MTU in octets, IPoIB header included
 *
 * Return: 0, or -EINVAL when it is too short or the MTU holds no packet.
 */
static inline int ipoib_cm_data_parse(const void *buf, size_t len, u32 *qpn,
				      u32 *mtu)
{
	const struct ipoib_cm_data *data = buf;

	if (!buf || len < sizeof(*data))
		return -EINVAL;
	*qpn = be32_to_cpu(data->qpn) & IPOIB_QPN_MASK;
	*mtu = be32_to_cpu(data->mtu);
	return *mtu > IPOIB_ENCAP_LEN ? 0 : -EINVAL;
}

static inline void ipoib_cm_data_fill(struct ipoib_cm_data *data, u32 qpn,
				      u32 mtu)
{
	data->qpn = cpu_to_be32(qpn & IPOIB_QPN_MASK);
	data->mtu = cpu_to_be32(mtu);
}

#endif /* IPOIB_PROTO_H */
