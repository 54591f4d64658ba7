import { type BlockList, isIP, isIPv4 } from 'node:net'
import type { AuditedRequest } from './event.ts'

/** Longest X-Forwarded-For that is read, in characters from its end. */
const LONGEST = 2_048

/**
 * Where a request comes from: the peer of the connection, unless that is a trusted proxy; then the last address in
 * X-Forwarded-For that no trusted proxy has. Those before it anybody can write. Undefined where the peer is gone.
 * `trusted`: undefined where no proxy is trusted.
 */
export function sourceAddress({ socket, headers }: AuditedRequest, trusted: BlockList | undefined): string | undefined {
  let source = plain(socket.remoteAddress ?? '')
  if (source === undefined || trusted === undefined || !isTrusted(source, trusted)) return source
  const header = headers['x-forwarded-for']
  const hops = (Array.isArray(header) ? header.join() : (header ?? '')).slice(-LONGEST).split(',')
  while (hops.length > 0) {
    const hop = plain((hops.pop() as string).trim())
    // What is no address was not written by the proxy behind it.
    if (hop === undefined) break
    source = hop
    if (!isTrusted(hop, trusted)) break
  }
  return source
}

const isTrusted = (address: string, trusted: BlockList): boolean =>
  trusted.check(address, isIPv4(address) ? 'ipv4' : 'ipv6')

/** An address in its plain form: that of IPv4 where IPv6 only carries it, and without a zone. */
function plain(text: string): string | undefined {
  if (isIPv4(text)) return text
  const address = (/^::ffff:([\d.]+)$/i.exec(text)?.[1] ?? text).split('%', 1)[0] as string
  return isIP(address) === 0 ? undefined : address
}
