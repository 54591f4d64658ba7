import { checkGateway } from '../check/gateway.ts'
import { gatewayConfigSchema } from '../gateway.ts'
import { configParser } from './parse.ts'

/** Parses a gateway's configuration and collects all its findings; loaded only for an invalid configuration. */
export const parseGateway = configParser(gatewayConfigSchema, checkGateway)
