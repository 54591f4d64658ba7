import { lookup } from 'node:dns/promises'
import { classOf } from '../../net/address.ts'
import { SourceError } from './source-error.ts'

/**
 * The address of a URL's host as curl takes it (`host:port:address`), so that what was checked is what is called, whatever
 * the name resolves to a moment later. Throws a SourceError where one of its addresses is not public.
 */
export async function publicAddress({ hostname, port, protocol }: URL): Promise<string> {
  const host = hostname.replace(/^\[|\]$/g, '')
  const addresses = await lookup(host, { all: true }).catch((error: NodeJS.ErrnoException) => {
    throw new SourceError('unreachable', `${host} can’t be resolved (${error.code})`)
  })
  const [first] = addresses
  if (first === undefined || addresses.some(({ address }) => classOf(address) !== 'public'))
    throw new SourceError('private_address', 'it is at an address that sources of the API may not reach')
  const bracketed = first.family === 6 ? `[${first.address}]` : first.address
  return `${host}:${port || (protocol === 'https:' ? 443 : 80)}:${bracketed}`
}
