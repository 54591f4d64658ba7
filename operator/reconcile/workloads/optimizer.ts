import type { VirtualMCPServer } from '../../../crds/index.ts'
import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'

type Optimizer = NonNullable<NonNullable<VirtualMCPServer['spec']['config']>['optimizer']>

/** Tool search as the gateway reads it. */
export function optimizerOf(optimizer: Optimizer | undefined): Pick<GatewayConfig, 'optimizer'> {
  if (optimizer === undefined) return {}
  const { maxToolsToReturn } = optimizer
  return { optimizer: maxToolsToReturn === undefined ? {} : { maxToolsToReturn } }
}
