import type { CredentialConfig } from '../config/credential.ts'
import type { Strategy } from './credential.ts'
import { forwarded } from './forwarded.ts'
import { tokenExchange } from './token-exchange.ts'
import { noUpstreamTokens, type UpstreamTokens } from './upstream-tokens.ts'

interface StrategyOptions {
  /** Folder that file paths of the configuration are relative to. */
  readonly directory: string
  /** Absent: there is no authorization server. */
  readonly upstreamTokens?: UpstreamTokens | undefined
}

/** The strategy that a configuration asks for. */
export const createStrategy = (
  { tokenExchange: exchange }: CredentialConfig,
  { directory, upstreamTokens = noUpstreamTokens }: StrategyOptions,
): Strategy => (exchange === undefined ? forwarded() : tokenExchange(exchange, { directory, upstreamTokens }))
