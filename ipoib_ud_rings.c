// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Rings of the UD QP: their buffers and DMA mappings. */
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "ipoib.h"

/**
 * ipoib_ud_rx_paged() - does a packet reach into the page of its buffer?
 * @ud: the datagram side
 * @len: octets of the packet, GRH included
 *
 * Context: any.
 * Return: true if so.
 */
bool ipoib_ud_rx_paged(const struct ipoib_ud *ud, unsigned int len)
{
	return len > ud->head_len;
}

static void ipoib_ud_rx_free_head(struct ipoib_netdev *priv,
				  struct ipoib_ud_rx *slot)
{
	ib_dma_unmap_single(priv->port->ca, slot->dma, priv->ud.head_len,
			    DMA_FROM_DEVICE);
	dev_kfree_skb_any(slot->skb);
	slot->skb = NULL;
}

static int ipoib_ud_rx_alloc_head(struct ipoib_netdev *priv,
				  struct ipoib_ud_rx *slot, gfp_t gfp)
{
	struct ib_device *ca = priv->port->ca;
	unsigned int len = priv->ud.head_len;
	struct sk_buff *skb;

	skb = __netdev_alloc_skb(priv->dev, len, gfp);
	if (!skb)
		return -ENOMEM;
	slot->dma = ib_dma_map_single(ca, skb->data, len, DMA_FROM_DEVICE);
	if (ib_dma_mapping_error(ca, slot->dma)) {
		dev_kfree_skb_any(skb);
		return -ENOMEM;
	}
	slot->skb = skb;
	return 0;
}

static int ipoib_ud_rx_alloc_page(struct ipoib_netdev *priv,
				  struct ipoib_ud_rx *slot, gfp_t gfp)
{
	struct ib_device *ca = priv->port->ca;
	struct page *page;

	page = __dev_alloc_page(gfp);
	if (!page)
		return -ENOMEM;
	slot->page_dma = ib_dma_map_page(ca, page, 0,
					 priv->ud.buf_len - priv->ud.head_len,
					 DMA_FROM_DEVICE);
	if (ib_dma_mapping_error(ca, slot->page_dma)) {
		__free_page(page);
		return -ENOMEM;
	}
	slot->page = page;
	return 0;
}

/**
 * ipoib_ud_rx_alloc() - make what a slot lacks of a receive buffer
 * @priv: the interface
 * @slot: without skb; it may have its page
 * @gfp: how to allocate
 *
 * Context: any but hard interrupt.
 * Return: 0, or -ENOMEM; the slot has what it had then.
 */
int ipoib_ud_rx_alloc(struct ipoib_netdev *priv, struct ipoib_ud_rx *slot,
		      gfp_t gfp)
{
	int err;

	err = ipoib_ud_rx_alloc_head(priv, slot, gfp);
	if (err || slot->page || !ipoib_ud_rx_paged(&priv->ud, priv->ud.buf_len))
		return err;
	err = ipoib_ud_rx_alloc_page(priv, slot, gfp);
	if (err)
		ipoib_ud_rx_free_head(priv, slot);
	return err;
}

static void ipoib_ud_rx_unmap_page(struct ipoib_netdev *priv,
				   struct ipoib_ud_rx *slot)
{
	ib_dma_unmap_page(priv->port->ca, slot->page_dma,
			  priv->ud.buf_len - priv->ud.head_len,
			  DMA_FROM_DEVICE);
}

/**
 * ipoib_ud_rx_take() - take a packet out of its slot
 * @priv: the interface
 * @slot: the slot, which the HCA does not own; its page stays unless the packet
 *	reaches into it
 * @len: octets received, GRH included
 *
 * Context: any but hard interrupt.
 * Return: the packet.
 */
struct sk_buff *ipoib_ud_rx_take(struct ipoib_netdev *priv,
				 struct ipoib_ud_rx *slot, unsigned int len)
{
	unsigned int head = min(len, priv->ud.head_len);
	struct sk_buff *skb = slot->skb;

	ib_dma_unmap_single(priv->port->ca, slot->dma, priv->ud.head_len,
			    DMA_FROM_DEVICE);
	slot->skb = NULL;
	skb_put(skb, head);
	if (len > head) {
		ipoib_ud_rx_unmap_page(priv, slot);
		skb_add_rx_frag(skb, 0, slot->page, 0, len - head, PAGE_SIZE);
		slot->page = NULL;
	}
	return skb;
}

/**
 * ipoib_ud_rx_release() - free the buffer of a slot that the HCA does not own
 * @priv: the interface
 * @slot: the slot
 */
void ipoib_ud_rx_release(struct ipoib_netdev *priv, struct ipoib_ud_rx *slot)
{
	if (slot->skb)
		ipoib_ud_rx_free_head(priv, slot);
	if (slot->page) {
		ipoib_ud_rx_unmap_page(priv, slot);
		__free_page(slot->page);
		slot->page = NULL;
	}
	slot->posted = false;
}

static void ipoib_ud_tx_unmap_n(struct ib_device *ca, struct ipoib_ud_tx *slot,
				unsigned int nfrags)
{
	struct sk_buff *skb = slot->skb;
	unsigned int i, n = 0;

	if (skb_headlen(skb) > slot->skip)
		ib_dma_unmap_single(ca, slot->dma[n++],
				    skb_headlen(skb) - slot->skip,
				    DMA_TO_DEVICE);
	for (i = 0; i < nfrags; i++)
		ib_dma_unmap_page(ca, slot->dma[n++],
				  skb_frag_size(&skb_shinfo(skb)->frags[i]),
				  DMA_TO_DEVICE);
}

/**
 * ipoib_ud_tx_map() - map a packet for the HCA
 * @priv: the interface
 * @slot: its skb and skip are set
 *
 * Writes the scatter/gather list to the interface's send_sge.
 *
 * Context: transmit queue lock held.
 * Return: number of scatter/gather entries, or -ENOMEM with nothing mapped.
 */
int ipoib_ud_tx_map(struct ipoib_netdev *priv, struct ipoib_ud_tx *slot)
{
	struct ib_device *ca = priv->port->ca;
	struct ib_sge *sge = priv->ud.send_sge;
	struct sk_buff *skb = slot->skb;
	unsigned int i, len, n = 0;

	len = skb_headlen(skb) - slot->skip;
	if (len) {
		slot->dma[n] = ib_dma_map_single(ca, skb->data + slot->skip,
						 len, DMA_TO_DEVICE);
		if (ib_dma_mapping_error(ca, slot->dma[n]))
			return -ENOMEM;
		sge[n].addr = slot->dma[n];
		sge[n++].length = len;
	}
	for (i = 0; i < skb_shinfo(skb)->nr_frags; i++) {
		const skb_frag_t *frag = &skb_shinfo(skb)->frags[i];

		slot->dma[n] = ib_dma_map_page(ca, skb_frag_page(frag),
					       skb_frag_off(frag),
					       skb_frag_size(frag),
					       DMA_TO_DEVICE);
		if (ib_dma_mapping_error(ca, slot->dma[n]))
			goto err_unmap;
		sge[n].addr = slot->dma[n];
		sge[n++].length = skb_frag_size(frag);
	}
	return n;

err_unmap:
	ipoib_ud_tx_unmap_n(ca, slot, i);
	return -ENOMEM;
}

/**
 * ipoib_ud_tx_unmap() - undo ipoib_ud_tx_map()
 * @priv: the interface
 * @slot: a slot that the HCA does not own
 */
void ipoib_ud_tx_unmap(struct ipoib_netdev *priv, struct ipoib_ud_tx *slot)
{
	ipoib_ud_tx_unmap_n(priv->port->ca, slot,
			    skb_shinfo(slot->skb)->nr_frags);
}

/* Begin shortly before the indices wrap, so that no error there stays hidden. */
static void ipoib_ud_tx_rewind(struct ipoib_ud *ud)
{
	ud->tx_head = 0 - ud->tx_size / 2;
	ud->tx_tail = ud->tx_head;
}

/**
 * ipoib_ud_rings_alloc() - make empty rings
 * @priv: the interface; ring sizes are set
 *
 * Return: 0 or -ENOMEM.
 */
int ipoib_ud_rings_alloc(struct ipoib_netdev *priv)
{
	struct ipoib_ud *ud = &priv->ud;
	unsigned int i;

	ud->rx = kvcalloc(ud->rx_size, sizeof(*ud->rx), GFP_KERNEL);
	ud->rx_idle = kvcalloc(ud->rx_size, sizeof(*ud->rx_idle), GFP_KERNEL);
	ud->tx = kvcalloc(ud->tx_size, sizeof(*ud->tx), GFP_KERNEL);
	if (!ud->rx || !ud->rx_idle || !ud->tx) {
		ipoib_ud_rings_free(priv);
		return -ENOMEM;
	}
	for (i = 0; i < ud->rx_size; i++)
		ud->rx_idle[i] = ud->rx_size - 1 - i;
	ud->rx_nidle = ud->rx_size;
	ipoib_ud_tx_rewind(ud);
	return 0;
}

/**
 * ipoib_ud_rings_free() - free rings that hold no buffers
 * @priv: the interface
 */
void ipoib_ud_rings_free(struct ipoib_netdev *priv)
{
	struct ipoib_ud *ud = &priv->ud;

	kvfree(ud->tx);
	kvfree(ud->rx_idle);
	kvfree(ud->rx);
	ud->tx = NULL;
	ud->rx_idle = NULL;
	ud->rx = NULL;
}

/**
 * ipoib_ud_rings_reclaim() - free everything in the rings
 * @priv: the interface; its NAPIs are off and its QP is in RESET or gone, so
 *	the HCA owns nothing
 */
void ipoib_ud_rings_reclaim(struct ipoib_netdev *priv)
{
	struct ipoib_ud *ud = &priv->ud;
	unsigned int i;

	for (i = 0; i < ud->rx_size; i++) {
		ipoib_ud_rx_release(priv, &ud->rx[i]);
		ud->rx_idle[i] = ud->rx_size - 1 - i;
	}
	ud->rx_nidle = ud->rx_size;
	for (i = 0; i < ud->tx_size; i++) {
		struct ipoib_ud_tx *slot = &ud->tx[i];

		slot->done = false;
		if (!slot->skb)
			continue;
		ipoib_ud_tx_unmap(priv, slot);
		ipoib_ah_put(slot->ah);
		dev_kfree_skb_any(slot->skb);
		slot->skb = NULL;
		slot->ah = NULL;
	}
	ipoib_ud_tx_rewind(ud);
}
