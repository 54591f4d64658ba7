import type { Finding } from '../../load.ts'
import { isLoopback, urlFindings } from '../url.ts'

/** Checks the address of a client's keys: https, or http on loopback while `issuer`, this server, is there, too. */
export function keyAddressFindings(text: string, pointer: string, issuer: string): readonly Finding[] {
  const [url, home] = [URL.parse(text), URL.parse(issuer)]
  const isLocal = url !== null && home !== null && isLoopback(url) && isLoopback(home)
  return [
    ...urlFindings(text, pointer),
    ...(url?.protocol === 'http:' && !isLocal
      ? [{ pointer, message: 'must be https; plain http is for loopback, while the issuer is there, too' }]
      : []),
  ]
}
