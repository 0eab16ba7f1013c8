// SPDX-License-Identifier: GPL-2.0-only
/*
 * P_Key table, and the stateless maps between MAC, GID and LID.
 *
 * rxe puts P_Key 0xffff into every packet. The partition travels in what rxe
 * does carry and check: a UD Q_Key is mixed with the 15 bits of the P_Key on
 * both sides, an RC packet sequence starts at a number mixed with them, and a
 * UD sender which is a limited member says so in immediate data, which the
 * receiving softib takes off again. MADs carry the P_Key in their header. So
 * partitions are kept apart between two guests too.
 */
#include <linux/etherdevice.h>
#include <linux/hash.h>
#include <rdma/ib_mad.h>

#include "softib.h"
#include "softib_obj.h"

#define SOFTIB_PKEY_BASE	0x7fff
#define SOFTIB_PKEY_MEMBER	0x8000
/* Never equal: a QP without a valid P_Key talks to nobody. */
#define SOFTIB_NO_QKEY_SEND	0x3ad53ad5
#define SOFTIB_NO_QKEY_RECV	0x152a152a

/**
 * softib_pkey_match - may holders of these two P_Keys talk?
 * @a: one P_Key
 * @b: the other
 */
bool softib_pkey_match(u16 a, u16 b)
{
	return (a & SOFTIB_PKEY_BASE) &&
	       (a & SOFTIB_PKEY_BASE) == (b & SOFTIB_PKEY_BASE) &&
	       ((a | b) & SOFTIB_PKEY_MEMBER);
}

u16 softib_pkey_get(struct softib_port *port, u16 index)
{
	return index < SOFTIB_PKEY_LEN ? READ_ONCE(port->pkey[index]) : 0;
}

/**
 * softib_pkey_set - write an entry of the P_Key table
 * @port: the port
 * @index: entry
 * @pkey: new value, 0 for none
 *
 * Context: process. Tells the QPs and the users of the device.
 * Return: 0 or -EINVAL.
 */
int softib_pkey_set(struct softib_port *port, u16 index, u16 pkey)
{
	if (index >= SOFTIB_PKEY_LEN)
		return -EINVAL;
	spin_lock(&port->pkey_lock);
	WRITE_ONCE(port->pkey[index], pkey);
	spin_unlock(&port->pkey_lock);

	mutex_lock(&port->plug_lock);
	if (port->sdev) {
		softib_qp_pkey_changed(port->sdev, index);
		softib_dispatch(port->sdev, IB_EVENT_PKEY_CHANGE);
	}
	mutex_unlock(&port->plug_lock);
	return 0;
}

/**
 * softib_pkey_find - find an entry that may talk with a P_Key
 * @port: the port
 * @pkey: the P_Key of a sender
 * @index: result; an equal entry is preferred
 *
 * Context: any.
 * Return: 0 or -ENOENT.
 */
int softib_pkey_find(struct softib_port *port, u16 pkey, u16 *index)
{
	int i, found = -ENOENT;

	for (i = 0; i < SOFTIB_PKEY_LEN; i++) {
		u16 own = READ_ONCE(port->pkey[i]);

		if (!softib_pkey_match(own, pkey))
			continue;
		*index = i;
		found = 0;
		if (own == pkey)
			break;
	}
	return found;
}

/**
 * softib_wire_qkey - the Q_Key which the lower QP uses
 * @qkey: the user's Q_Key
 * @pkey: the P_Key of the QP, 0 if its table entry is empty
 * @send: for a packet to send, or for what a QP accepts
 *
 * Bit 31 is kept clear, since rxe would take the QP's own Q_Key otherwise.
 */
u32 softib_wire_qkey(u32 qkey, u16 pkey, bool send)
{
	pkey &= SOFTIB_PKEY_BASE;
	if (!pkey)
		return send ? SOFTIB_NO_QKEY_SEND : SOFTIB_NO_QKEY_RECV;
	return (qkey ^ hash_32(pkey, 31)) & 0x7fffffff;
}

/**
 * softib_wire_psn - map a packet sequence number of an RC QP
 * @psn: 24 bits
 * @pkey: the P_Key of the QP
 * @to_wire: from the user's to the lower QP's, or back
 */
u32 softib_wire_psn(u32 psn, u16 pkey, bool to_wire)
{
	u32 shift = hash_32(pkey & SOFTIB_PKEY_BASE, 24);

	return (to_wire ? psn + shift : psn - shift) & 0xffffff;
}

void softib_mac_to_gid(const u8 *mac, union ib_gid *gid)
{
	gid->global.subnet_prefix = cpu_to_be64(0xfe80000000000000ULL);
	memcpy(gid->raw + 8, mac, 3);
	gid->raw[8] ^= 2;
	gid->raw[11] = 0xff;
	gid->raw[12] = 0xfe;
	memcpy(gid->raw + 13, mac + 3, 3);
}

void softib_gid_to_mac(const union ib_gid *gid, u8 *mac)
{
	memcpy(mac, gid->raw + 8, 3);
	mac[0] ^= 2;
	memcpy(mac + 3, gid->raw + 13, 3);
}

u16 softib_gid_to_lid(const union ib_gid *gid)
{
	return gid->raw[14] << 8 | gid->raw[15];
}

/**
 * softib_lid_to_gid - the GID of the port with a LID
 * @sdev: a device of the same subnet
 * @lid: the LID, which is the last 16 bits of the MAC
 * @gid: result; all ports of a subnet share the first 32 bits of the MAC
 */
void softib_lid_to_gid(const struct softib_dev *sdev, u16 lid,
		       union ib_gid *gid)
{
	*gid = sdev->gid;
	gid->raw[14] = lid >> 8;
	gid->raw[15] = lid;
}
