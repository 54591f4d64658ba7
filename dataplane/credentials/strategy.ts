import { resolve } from 'node:path'
import type { CredentialConfig, UpstreamInjectConfig } from '../config/credential.ts'
import { awsSts } from './aws-sts.ts'
import type { Strategy } from './credential.ts'
import { forwarded } from './forwarded.ts'
import { tokenExchange } from './token-exchange.ts'
import { actorVariant, holderOf, noUpstreamTokens, type UpstreamTokens } from './upstream-tokens.ts'
import { xaa } from './xaa.ts'

/** The interval of reads of the store, which bounds how late a replaced or unlinked token is noticed. */
const KEEP_MS = 4_000

/** Sends the access token that the upstream provider gave the caller at login, or the caller’s own key. */
const upstreamInject = ({ providerName }: UpstreamInjectConfig, upstreamTokens: UpstreamTokens): Strategy => ({
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
  { tokenExchange: exchange, upstreamInject: inject, xaa: crossAppAccess, awsSts: aws }: CredentialConfig,
  { directory, upstreamTokens = noUpstreamTokens }: StrategyOptions,
): Strategy {
  const inFolder = (file: string | undefined) => (file === undefined ? undefined : resolve(directory, file))
  if (exchange !== undefined) return tokenExchange(exchange, { inFolder, upstreamTokens })
  if (aws !== undefined) return awsSts(aws, upstreamTokens)
  if (crossAppAccess !== undefined) return xaa(crossAppAccess, { inFolder, upstreamTokens })
  return inject === undefined ? forwarded() : upstreamInject(inject, upstreamTokens)
}
