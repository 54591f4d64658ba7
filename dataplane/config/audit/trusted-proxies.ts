import { BlockList, isIP, isIPv4 } from 'node:net'

/** Builds a lookup list from addresses and networks. Throws a TypeError that names the first text that is neither. */
export function trustedNetworks(texts: readonly string[]): BlockList {
  const list = new BlockList()
  for (const text of texts) add(list, text)
  return list
}

function add(list: BlockList, text: string): void {
  const [address = '', prefix, ...rest] = text.split('/')
  const family = isIPv4(address) ? 'ipv4' : 'ipv6'
  const most = family === 'ipv4' ? 32 : 128
  const isNetwork = prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= most)
  if (isIP(address) === 0 || address.includes('%') || !isNetwork || rest.length > 0)
    throw new TypeError(`${JSON.stringify(text)} is neither an address nor a network such as 10.0.0.0/8`)
  list.addSubnet(address, Number(prefix ?? most), family)
}
