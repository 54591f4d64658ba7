import { isOn, lacksSharedReplay, REPLAY_NOT_SHARED } from '../../../dataplane/config/check/dpop.ts'
import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'
import type { Conditions } from '../outcome/conditions.ts'
import type { Problems } from '../outcome/problems.ts'

/** Records a problem if used proofs are to be known at all replicas, which have no Redis. `pointer`: of the block. */
export function checkProofs(config: GatewayConfig, pointer: string, problems: Problems): void {
  if (lacksSharedReplay(config))
    problems.add('ProofReady', 'ReplayNotShared', { pointer: `${pointer}/replay`, message: REPLAY_NOT_SHARED })
}

/**
 * Sets `ProofReady` if proofs are read. Warns if the authorization server binds tokens that the endpoint refuses.
 * `pointer`: of the block.
 */
export function reportProofs(
  { incomingAuth, authServer }: GatewayConfig,
  pointer: string,
  conditions: Conditions,
): void {
  if (isOn(incomingAuth.dpop)) {
    if (conditions.get('ProofReady') === undefined) conditions.set('ProofReady', 'True', 'ProofsRead', '')
  } else if (isOn(authServer?.dpop)) {
    const message = `${pointer} is not on, but the authorization server binds tokens to keys of clients (dpop): this endpoint refuses them`
    conditions.set('ProofWarning', 'True', 'ProofsNotRead', message)
  }
}
