import type { CredentialConfig } from '../credential.ts'
import type { Finding } from '../load.ts'
import { addressFindings, isLoopback, urlFindings } from './url.ts'

/** What is wrong with how a credential is obtained, which stands at the pointer `at`. */
export function credentialFindings(credential: CredentialConfig, at: string): readonly Finding[] {
  const blocks = ['tokenExchange', 'upstreamInject', 'forwarded'] as const
  const { type, tokenExchange } = credential
  return [
    ...blocks
      .filter((block) => (block === type) !== (credential[block] !== undefined))
      .map((block) => ({ pointer: `${at}/${block}`, message: `must be set when type is ${block}, and only then` })),
    ...(tokenExchange === undefined ? [] : tokenClientFindings(tokenExchange, `${at}/tokenExchange`)),
  ]
}

/** Names of the headers that a credential stands in, with where they are named. */
export function credentialHeaders({ tokenExchange, forwarded }: CredentialConfig, at: string) {
  const own = tokenExchange?.headerName
  return [
    ...(own === undefined ? [] : [{ name: own, pointer: `${at}/tokenExchange/headerName` }]),
    ...(forwarded?.headerNames ?? []).map((name, index) => ({
      name,
      pointer: `${at}/forwarded/headerNames/${index}`,
      // A request without it gets the configured one.
      mayReplace: true,
    })),
  ]
}

interface TokenClient {
  readonly tokenUrl: string
  readonly clientId?: string | undefined
  /** Where the secret is, in whichever form. */
  readonly clientSecretFile?: unknown
  readonly clientSecretRef?: unknown
  readonly allowPrivateIP?: boolean | undefined
  readonly insecureAllowHTTP?: boolean | undefined
}

/**
 * What is wrong with a token endpoint and the gateway's client there: callers' tokens and the secret go there, so it is
 * https, or on loopback, or plain http by choice; and a secret belongs to a client.
 */
export function tokenClientFindings(client: TokenClient, at: string): readonly Finding[] {
  const { tokenUrl, clientId, clientSecretFile, clientSecretRef, allowPrivateIP, insecureAllowHTTP } = client
  const pointer = `${at}/tokenUrl`
  const url = URL.parse(tokenUrl)
  const isSecure = url === null || url.protocol === 'https:' || isLoopback(url) || insecureAllowHTTP === true
  const called = { allowPrivateIP, allowLoopback: url !== null && isLoopback(url), allowedBy: 'allowPrivateIP' }
  return [
    ...urlFindings(tokenUrl, pointer),
    ...addressFindings(tokenUrl, pointer, called),
    ...(isSecure
      ? []
      : [{ pointer, message: 'must be https; plain http is for loopback, or needs insecureAllowHTTP: true' }]),
    ...((clientSecretFile ?? clientSecretRef) !== undefined && clientId === undefined
      ? [{ pointer: `${at}/clientId`, message: 'is required with a client secret' }]
      : []),
  ]
}
