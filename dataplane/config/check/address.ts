import { BlockList, isIP, isIPv4, isIPv6 } from 'node:net'

/**
 * The class of an IP address: `public`; `private` (RFC 1918, shared, unique local); `loopback`; `never` (link-local
 * with the cloud metadata services, unspecified, multicast, reserved, documentation).
 */
export type AddressClass = 'public' | 'private' | 'loopback' | 'never'

const block = (...networks: readonly `${string}/${number}`[]): BlockList => {
  const list = new BlockList()
  for (const network of networks) {
    const [address = '', prefix] = network.split('/')
    list.addSubnet(address, Number(prefix), isIPv4(address) ? 'ipv4' : 'ipv6')
  }
  return list
}

/**
 * Services of clouds that give out credentials, outside the link-local ranges: Alibaba, Azure's wire server, Oracle; over
 * IPv6 AWS (instances, and pods of EKS), Google, Oracle.
 */
const METADATA = block(
  '100.100.100.200/32',
  '168.63.129.16/32',
  '192.0.0.192/32',
  'fd00:ec2::/32',
  'fd20:ce::254/128',
  'fd00:c1::a9fe:a9fe/128',
)
const LOOPBACK = block('127.0.0.0/8', '::1/128')
const PRIVATE = block('10.0.0.0/8', '100.64.0.0/10', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7')
/** The special-purpose registries of IANA (RFC 6890). */
const NEVER = block(
  '0.0.0.0/8',
  '169.254.0.0/16',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
  '::/128',
  '100::/64',
  '100:0:0:1::/64',
  '2001::/23',
  '2001:db8::/32',
  '3fff::/20',
  '5f00::/16',
  'fe80::/10',
  'fec0::/10',
  'ff00::/8',
)

/**
 * Returns the class of an IP address. An IPv6 address that carries an IPv4 one (mapped, compatible, translated, NAT64,
 * 6to4) has that one's class; behind the NAT64 of a network it is not public. Anything else is `never`.
 */
export function classifyAddress(address: string): AddressClass {
  const plain = address.split('%')[0] ?? ''
  if (isIP(plain) === 0) return 'never'
  if (isIPv6(plain) && LOCAL_NAT64.check(plain, 'ipv6')) return classifyTranslated(parseGroups(plain))
  const inner = isIPv6(plain) ? embeddedIPv4(plain) : undefined
  if (inner !== undefined) return classifyAddress(inner)
  const family = isIPv4(plain) ? 'ipv4' : 'ipv6'
  if (METADATA.check(plain, family)) return 'never'
  if (LOOPBACK.check(plain, family)) return 'loopback'
  if (PRIVATE.check(plain, family)) return 'private'
  return NEVER.check(plain, family) ? 'never' : 'public'
}

/** The IPv6 networks whose addresses carry an IPv4 address, and the 16-bit group at which it begins. */
const CARRIERS = [
  { network: block('::ffff:0:0/96'), group: 6 }, // mapped, RFC 4291 section 2.5.5.2
  { network: block('::ffff:0:0:0/96'), group: 6 }, // translated, RFC 2765
  { network: block('64:ff9b::/96'), group: 6 }, // NAT64, RFC 6052
  { network: block('2002::/16'), group: 1 }, // 6to4, RFC 3056
] as const
/** The compatible addresses (RFC 4291 section 2.5.5.1), except `::` and `::1`. */
const COMPATIBLE = block('::/96')

function embeddedIPv4(address: string): string | undefined {
  const groups = parseGroups(address)
  // BlockList treats a mapped address as the IPv4 address that it carries, so a check of networks alone is not enough.
  const mapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff
  const carrier = mapped ? CARRIERS[0] : CARRIERS.find(({ network }) => network.check(address, 'ipv6'))
  if (carrier !== undefined) return ipv4At(groups, carrier.group)
  if (COMPATIBLE.check(address, 'ipv6') && groups[6] !== 0) return ipv4At(groups, 6)
  return undefined
}

/** The prefix of NAT64 within a network (RFC 8215). The network chooses where the IPv4 address stands in it. */
const LOCAL_NAT64 = block('64:ff9b:1::/48')
/** The bytes at which an IPv4 address may stand behind prefixes of 48, 56, 64 and 96 bits (RFC 6052 section 2.2). */
const TRANSLATED = [
  [6, 7, 9, 10],
  [7, 9, 10, 11],
  [9, 10, 11, 12],
  [12, 13, 14, 15],
] as const
/** From the strictest on. */
const CLASSES: readonly AddressClass[] = ['never', 'private', 'loopback', 'public']

/** Returns the strictest class of the IPv4 addresses that an address of `LOCAL_NAT64` may stand for; at best `private`. */
function classifyTranslated(groups: readonly number[]): AddressClass {
  const bytes = groups.flatMap((group) => [group >> 8, group & 0xff])
  // The other places hold zeros.
  const inner = TRANSLATED.map((places) => places.map((place) => bytes[place]).join('.')).filter(
    (address) => !address.startsWith('0.'),
  )
  if (inner.length === 0) return 'never'
  const found = new Set<AddressClass>(['private', ...inner.map(classifyAddress)])
  return CLASSES.find((one) => found.has(one)) as AddressClass
}

function ipv4At(groups: readonly number[], at: number): string {
  return [groups[at] ?? 0, groups[at + 1] ?? 0].flatMap((group) => [group >> 8, group & 0xff]).join('.')
}

/** Splits an IPv6 address into its eight 16-bit groups. */
function parseGroups(address: string): readonly number[] {
  // The URL parser writes every form (`::`, a dotted tail) in its canonical one.
  const canonical = new URL(`http://[${address}]`).hostname.slice(1, -1)
  const [head = '', tail] = canonical.split('::')
  const numbers = (part: string) => (part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16)))
  if (tail === undefined) return numbers(head)
  const before = numbers(head)
  const after = numbers(tail)
  return [...before, ...new Array<number>(8 - before.length - after.length).fill(0), ...after]
}

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
