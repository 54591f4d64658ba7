import { lookup } from 'node:dns/promises'
import { classOf } from '../../../config/check/address.ts'
import { SourceError } from '../format/source-error.ts'

/**
 * The address of a URL's host as curl takes it (`host:port:address`), so that what was checked is what is called, whatever
 * the name resolves to a moment later. Throws a SourceError where one of its addresses is not public or, of `reachable`
 * ones, is link-local, a metadata service or the like.
 */
export async function addressOf({ hostname, port, protocol }: URL, wanted: 'public' | 'reachable'): Promise<string> {
  const host = hostname.replace(/^\[|\]$/g, '')
  const addresses = await lookup(host, { all: true }).catch((error: NodeJS.ErrnoException) => {
    throw new SourceError('unreachable', `${host} can’t be resolved (${error.code})`)
  })
  const [first] = addresses
  const isRefused = wanted === 'public' ? (found: string) => found !== 'public' : (found: string) => found === 'never'
  if (first === undefined || addresses.some(({ address }) => isRefused(classOf(address))))
    throw new SourceError('private_address', 'it is at, or leads to, an address that this source may not reach')
  const bracketed = first.family === 6 ? `[${first.address}]` : first.address
  return `${host}:${port || (protocol === 'https:' ? 443 : 80)}:${bracketed}`
}
