import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { resolve } from 'node:path'
import type { CredentialBlock, CredentialConfig } from '../config/credential.ts'
import { awsSts } from './aws-sts.ts'
import type { Credential, Strategy, Subject } from './credential.ts'
import { tokenExchange } from './token-exchange.ts'
import { actorVariant, holderOf, noUpstreamTokens, type StrategyParts, type UpstreamTokens } from './upstream-tokens.ts'
import { xaa } from './xaa.ts'

/** The interval of reads of the store, which bounds how late a replaced or unlinked token is noticed. */
const KEEP_MS = 4_000

/** Sends the access token that the upstream provider gave the caller at login, or the caller’s own key. */
const upstreamInject = (
  { providerName }: CredentialBlock<'upstreamInject'>,
  { upstreamTokens }: StrategyParts,
): Strategy => ({
  key: JSON.stringify(['upstreamInject', providerName]),
  isOfLogin: true,
  variant: actorVariant,
  async obtain(subject, refused) {
    const { name, value, expiresAt } = await upstreamTokens.header(holderOf(subject), providerName, refused?.headers[1])
    return { headers: [name, value], expiresAt, keepMs: KEEP_MS }
  },
  close: () => Promise.resolve(),
})

interface StrategyOptions {
  readonly directory: string
  readonly upstreamTokens?: UpstreamTokens | undefined
}

export function createStrategy(
  config: CredentialConfig,
  { directory, upstreamTokens = noUpstreamTokens }: StrategyOptions,
): Strategy {
  const inFolder = (file: string | undefined) => (file === undefined ? undefined : resolve(directory, file))
  return STRATEGIES[config.type](config[config.type] as never, { inFolder, upstreamTokens })
}

const LONGEST = 64 * 1024

/** Returns the credential that a request carries for the server itself, as a flat list. `names` are in lower case. */
export function forwardedHeaders(names: readonly string[], from: IncomingHttpHeaders): readonly string[] | undefined {
  const headers = names.flatMap((name) => {
    const value = from[name]
    return typeof value === 'string' && value !== '' ? [name, value] : []
  })
  const length = headers.reduce((sum, text) => sum + text.length, 0)
  return headers.length === 0 || length > LONGEST ? undefined : headers
}

/** Returns the subject of an unchecked forwarded credential: everybody with the same digest. */
export const bearerOf = (headers: readonly string[]): Subject => ({
  issuer: 'forwarded',
  subject: hash('sha256', JSON.stringify(headers), 'base64url'),
  claims: {},
  token: '',
  forwarded: headers,
})

/** Forwards the credential of each request. The digest in the subject's name prevents its use for another caller. */
const forwarded = (): Strategy => ({
  key: 'forwarded',
  isFinal: true,
  obtain: ({ forwarded: headers = [] }): Promise<Credential> =>
    Promise.resolve({ headers, expiresAt: Number.POSITIVE_INFINITY }),
  close: () => Promise.resolve(),
})

const STRATEGIES: {
  readonly [T in CredentialConfig['type']]: (block: CredentialBlock<T>, parts: StrategyParts) => Strategy
} = { tokenExchange, upstreamInject, xaa, awsSts, forwarded }
