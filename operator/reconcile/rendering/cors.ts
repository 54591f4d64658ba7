import type { CorsSpec } from '../../../crds/settings/gateway/cors.ts'
import type { GatewayConfig } from '../../../dataplane/config/gateway.ts'

/** Builds the block `cors` of a data plane; empty if no page of another host may call. */
export const buildCors = ({ origins = [] }: CorsSpec = {}): Pick<GatewayConfig, 'cors'> =>
  origins.length === 0 ? {} : { cors: { origins: [...origins] } }
