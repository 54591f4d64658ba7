import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'
import { sortedKeys } from '../../render/object/canonical.ts'

/** Builds the counters of tool calls as the data plane reads them: absent where nothing is counted. */
export const buildUsage = (usage: GatewayConfig['usage']): Pick<GatewayConfig, 'usage'> =>
  usage?.enabled === true ? { usage: sortedKeys(usage) } : {}
