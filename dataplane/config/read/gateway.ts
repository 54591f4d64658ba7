import { checkGateway } from '../check/gateway.ts'
import type { GatewayConfig } from '../gateway.ts'
import { jsonOf } from '../load.ts'
import { acceptsGateway } from './accepts-gateway.ts'

/**
 * Turns the text of a gateway's configuration (YAML 1.2 or JSON) into its value, with the schema's defaults in place.
 * Rejects with a ConfigError that has all findings. What finds these is loaded where there are any, and what reads YAML
 * where the text is no JSON: ten idle gateways out of ten need neither for long.
 */
export async function readGateway(text: string, file?: string): Promise<GatewayConfig> {
  const value = jsonOf(text) ?? (await yamlOf(text))
  if (acceptsGateway(value) && checkGateway(value as GatewayConfig).length === 0) return value as GatewayConfig
  const { parseGateway } = await import('./gateway-findings.ts')
  return parseGateway(text, file)
}

/** Undefined where it is no YAML. */
async function yamlOf(text: string): Promise<unknown> {
  const { readYaml, valueOfYaml } = await import('./yaml.ts')
  try {
    return valueOfYaml(readYaml(text))
  } catch {
    return undefined
  }
}
