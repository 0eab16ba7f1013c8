# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
# Feature tests: $(call has,HEADER,REGEX,MACRO) defines MACRO if the kernel's
# HEADER matches REGEX. One line for each difference between kernels that the
# preprocessor cannot see.
has = $(if $(shell grep -lE '$(2)' $(srctree)/include/$(1) 2>/dev/null),-D$(3))

ccflags-y += $(call has,trace/stages/stage6_event_callback.h,__assign_str[(]dst[)],IPOIB_HAVE_ASSIGN_STR_1)
ccflags-y += $(call has,linux/netdevice.h,alloc_netdev_dummy,IPOIB_HAVE_ALLOC_NETDEV_DUMMY)
ccflags-y += $(call has,linux/hrtimer.h,void hrtimer_setup,IPOIB_HAVE_HRTIMER_SETUP)
ccflags-y += $(call has,net/rtnetlink.h,struct rtnl_newlink_params,IPOIB_HAVE_NEWLINK_PARAMS)
ccflags-y += $(call has,linux/netdevice.h,ndo_set_rx_mode_async,IPOIB_HAVE_SET_RX_MODE_ASYNC)
ccflags-y += $(call has,linux/netdevice.h,[*]parse.*struct sk_buff [*]skb. unsigned char,IPOIB_HAVE_HEADER_PARSE_2)
ccflags-y += $(call has,rdma/ib_sa.h,unsigned int num_prs,IPOIB_HAVE_UNSIGNED_NUM_PRS)
ccflags-y += $(call has,linux/unaligned.h,unaligned,IPOIB_HAVE_LINUX_UNALIGNED)
ccflags-y += $(call has,net/page_pool/helpers.h,page_pool,IPOIB_HAVE_PAGE_POOL_HELPERS)
ccflags-y += $(call has,net/gso.h,skb_gso_validate_network_len,IPOIB_HAVE_NET_GSO)
