import { gatewayConfigSchema } from '../gateway.ts'
import { acceptor } from '../schema-violations.ts'

/**
 * Tells whether a value is a gateway's configuration, and fills in defaults. The bundle has this function compiled
 * (build/patches/validators.ts), without schema and compiler.
 */
export const acceptsGateway: (value: unknown) => boolean = acceptor(gatewayConfigSchema)
