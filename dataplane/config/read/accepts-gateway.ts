import { gatewayConfigSchema } from '../gateway.ts'
import { acceptor } from '../schema-violations.ts'

/**
 * Whether a value is a gateway's configuration by the schema; puts the schema's defaults in place as far as it comes. The
 * bundle has this function as the code that is made here at run time (build/patches/validators.ts), so that a gateway loads
 * neither the schema nor what compiles it.
 */
export const acceptsGateway: (value: unknown) => boolean = acceptor(gatewayConfigSchema)
