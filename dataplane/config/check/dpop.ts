import { longestProofAge, shortestProofAge } from '../../../crds/settings/auth/dpop-bounds.ts'
import { parseDuration } from '../../../crds/settings/duration.ts'
import type { GatewayConfig } from '../gateway.ts'
import type { Finding } from '../load.ts'

type Read = Pick<GatewayConfig, 'incomingAuth' | 'sessionStorage' | 'authServer'>

/** Tells whether replicas of a gateway have a Redis through which they know each other's used proofs. */
const hasRedis = ({ sessionStorage, authServer }: Read): boolean =>
  sessionStorage?.redis !== undefined || authServer?.storage?.redis !== undefined

/** Tells whether a block `dpop` is present and not switched off. */
export const isOn = (dpop: { readonly mode?: string } | undefined): boolean =>
  dpop !== undefined && dpop.mode !== 'disabled'

/** Tells whether a configuration requires that replicas share used proofs, but names no Redis for them. */
export const lacksSharedReplay = (config: Read): boolean => {
  const { dpop } = config.incomingAuth
  return isOn(dpop) && dpop?.replay === 'shared' && !hasRedis(config)
}

/** The reason why `shared` is refused. */
export const REPLAY_NOT_SHARED = 'shared needs Redis: set sessionStorage, or storage of the authorization server'

export function dpopFindings(config: Read): readonly Finding[] {
  const { type, dpop } = config.incomingAuth
  const at = '/incomingAuth/dpop'
  if (dpop === undefined) return []
  if (type === 'anonymous') return [{ pointer: at, message: 'must be left out with type anonymous' }]
  const maxAge = parseDuration(dpop.maxAge ?? longestProofAge)
  const isWithin = maxAge >= parseDuration(shortestProofAge) && maxAge <= parseDuration(longestProofAge)
  return [
    ...(isWithin
      ? []
      : [{ pointer: `${at}/maxAge`, message: `must be from ${shortestProofAge} to ${longestProofAge}` }]),
    ...(lacksSharedReplay(config) ? [{ pointer: `${at}/replay`, message: REPLAY_NOT_SHARED }] : []),
  ]
}
