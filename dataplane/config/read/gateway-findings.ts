import { checkGateway } from '../check/gateway.ts'
import { gatewayConfigSchema } from '../gateway.ts'
import { configParser } from './parse.ts'

export const parseGateway = configParser(gatewayConfigSchema, checkGateway)
