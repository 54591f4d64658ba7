import { gatewayConfigSchema } from '../gateway.ts'
import { acceptor } from '../schema-violations.ts'

/**
 * Tells whether a value is a gateway's configuration by the schema, and fills in the schema's defaults as far as it
 * gets. The bundle contains this function as code generated at build time (build/patches/validators.ts), so that a
 * gateway loads neither the schema nor its compiler.
 */
export const acceptsGateway: (value: unknown) => boolean = acceptor(gatewayConfigSchema)
