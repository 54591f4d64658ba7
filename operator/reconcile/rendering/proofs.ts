import { lacksSharedReplay, REPLAY_NOT_SHARED } from '../../../dataplane/config/check/dpop.ts'
import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'
import type { Conditions } from '../outcome/conditions.ts'
import type { Problems } from '../outcome/problems.ts'

/** Records a problem if used proofs are to be known at all replicas, which have no Redis. `pointer`: of the block. */
export function checkProofs(config: GatewayConfig, pointer: string, problems: Problems): void {
  if (lacksSharedReplay(config))
    problems.add('ProofReady', 'ReplayNotShared', { pointer: `${pointer}/replay`, message: REPLAY_NOT_SHARED })
}

/** Sets `ProofReady` where proofs are read, unless a problem has set it. */
export function reportProofs({ incomingAuth: { dpop } }: GatewayConfig, conditions: Conditions): void {
  if (dpop === undefined || dpop.mode === 'disabled' || conditions.get('ProofReady') !== undefined) return
  conditions.set('ProofReady', 'True', 'ProofsRead', '')
}
