import { resolve } from 'node:path'
import type { CredentialConfig } from '../config/credential.ts'
import { awsSts } from './aws/aws-sts.ts'
import type { Strategy } from './credential.ts'
import { forwarded } from './forwarded.ts'
import { tokenExchange } from './token-exchange.ts'
import { upstreamInject } from './upstream-inject.ts'
import { noUpstreamTokens, type UpstreamTokens } from './upstream-tokens.ts'
import { xaa } from './xaa.ts'

interface StrategyOptions {
  /** Folder that file paths of the configuration are relative to. */
  readonly directory: string
  /** Absent: there is no authorization server. */
  readonly upstreamTokens?: UpstreamTokens | undefined
}

/** The strategy that a configuration asks for. */
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
