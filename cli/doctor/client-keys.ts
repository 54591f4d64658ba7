import { LARGEST_KEY_SET } from '../../dataplane/authserver/clients/client-keys.ts'
import { isKeyAddress, keysIn } from '../../dataplane/authserver/clients/stated-keys.ts'
import { isLoopback } from '../../dataplane/config/check/url.ts'
import { createGuardedFetch } from '../../dataplane/net/guarded-fetch.ts'
import { error, type Finding } from './finding.ts'
import { keyFindings, unsafeFindings } from './keys.ts'
import { objectIn, unreachable } from './metadata.ts'
import type { Subject } from './subject.ts'

/** Checks the keys of a client or a trust domain, as the authorization server fetches them: from public addresses. */
export async function checkClientKeys(
  subject: Subject,
  { allowPrivateIP }: { readonly allowPrivateIP?: boolean | undefined },
): Promise<readonly Finding[]> {
  const { issuer: url, server = '', keyUse } = subject
  const isLocal = URL.canParse(server) && isLoopback(new URL(server))
  if (!isKeyAddress(url, isLocal))
    return [error('keys', `${url} is not https`, 'serve the keys over https, at a public address')]
  const fetch = createGuardedFetch({ maxBytes: LARGEST_KEY_SET, allowPrivateIP, allowLoopback: isLocal })
  try {
    const { status, text } = await fetch(url)
    if (status !== 200)
      return [error('keys', `${url} answers ${status}`, 'check the address; redirects are not followed')]
    const set = objectIn(text)
    const keys = keysIn(set, keyUse)
    if (keys !== undefined) return keyFindings(url, keyUse === undefined ? set : { keys })
    const what = keyUse === undefined ? 'no set of 1 to 20 public keys' : `no keys with the use ${keyUse}`
    const unusable = error('keys', `${url} has ${what}`, 'publish RSA, EC or OKP keys there, as a JWK set')
    return [unusable, ...unsafeFindings(set)]
  } catch (failure) {
    return [unreachable(url, failure as Error, subject, 'keys')]
  } finally {
    await fetch.close()
  }
}
