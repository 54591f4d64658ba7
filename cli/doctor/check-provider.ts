import { LARGEST_KEY_SET } from '../../dataplane/authserver/clients/client-keys.ts'
import { isKeyAddress, keysIn } from '../../dataplane/authserver/clients/stated-keys.ts'
import { issuerFindings } from '../../dataplane/config/check/issuer.ts'
import { isLoopback } from '../../dataplane/config/check/url.ts'
import { createGuardedFetch, type GuardedFetch } from '../../dataplane/net/guarded-fetch.ts'
import { audienceFindings } from './audience.ts'
import { introspectionFindings, loginFindings, scopeFindings } from './endpoints.ts'
import { error, type Finding, note } from './finding.ts'
import { algorithmFindings, checkKeys, keyFindings, unsafeFindings } from './keys.ts'
import { objectIn, readMetadata, unreachable } from './metadata.ts'
import { checkEndpoints } from './oauth2.ts'
import type { Subject } from './subject.ts'

interface Registration {
  readonly redirectUri?: string | undefined
  readonly scopes: readonly string[]
  readonly audiences: readonly string[]
}

export interface Diagnosis {
  readonly where: string
  readonly use: Subject['use']
  readonly issuer: string
  readonly findings: readonly Finding[]
  readonly register: Registration
}

interface Options {
  readonly caBundleFile?: string | undefined
  readonly allowPrivateIP?: boolean | undefined
}

/** The API server has those keys, and answers its own workloads. */
const KEYS_OF_CLUSTER = note('keys', 'are those of the cluster’s API server, which this command does not ask')

/** Reads the metadata of a provider. An issuer whose keys have an address of their own needs none. */
const fetchMetadata = async (subject: Subject, fetch: GuardedFetch) =>
  subject.use === 'assertions' && subject.jwksUrl !== undefined
    ? { metadata: undefined, findings: [] }
    : readMetadata(subject, fetch)

/** Checks one provider as a gateway would use it: by the same guarded requests, without any secret. */
export async function checkProvider(subject: Subject, options: Options): Promise<Diagnosis> {
  const { where, use, issuer, scopes, audiences, redirectUri } = subject
  const register = { redirectUri, scopes, audiences }
  const diagnosis = (findings: readonly Finding[]): Diagnosis => ({ where, use, issuer, findings, register })
  if (subject.isOfCluster) return diagnosis([KEYS_OF_CLUSTER, ...audienceFindings(subject)])
  if (subject.use === 'keys') return diagnosis(await checkClientKeys(subject, options))
  if (subject.endpoints !== undefined) return diagnosis(await checkEndpoints(subject.endpoints, subject, options))
  const allowPrivateIP = subject.allowPrivateIP || options.allowPrivateIP
  const { insecureAllowHTTP = false } = subject
  const wrong = issuerFindings({ issuer, insecureAllowHTTP, allowPrivateIP, allowedBy: subject.allowedBy }, '')
  if (wrong.length > 0)
    return diagnosis(wrong.map(({ message }) => error('issuer', `${issuer} ${message}`, 'correct the issuer')))
  const fetch = createGuardedFetch({
    caBundleFile: options.caBundleFile,
    allowPrivateIP,
    allowLoopback: isLoopback(new URL(issuer)),
  })
  try {
    const { metadata, findings } = await fetchMetadata(subject, fetch)
    const keys = await checkKeys(subject, metadata, fetch)
    const ofMetadata =
      metadata === undefined
        ? []
        : [
            ...algorithmFindings(metadata),
            ...introspectionFindings(metadata, subject),
            ...(use === 'assertions' ? [] : loginFindings(metadata, subject)),
            ...scopeFindings(metadata, subject),
          ]
    return diagnosis([...findings, ...keys, ...ofMetadata, ...audienceFindings(subject)])
  } finally {
    await fetch.close()
  }
}

/** Checks the keys of a client or a trust domain, as the authorization server fetches them: from public addresses. */
async function checkClientKeys(
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
