import { checkGateway } from '../check/gateway.ts'
import { gatewayConfigSchema } from '../gateway.ts'
import { configParser } from './parse.ts'

/** Parses a gateway's configuration, with everything that is wrong in it; loaded where something is. */
export const parseGateway = configParser(gatewayConfigSchema, checkGateway)
