import { checkAuthzStepwise } from '../check/authz.ts'
import { checkGateway } from '../check/gateway.ts'
import type { GatewayConfig } from '../gateway.ts'
import { jsonOf } from '../load.ts'
import { compileStepwise } from '../workflow/compile.ts'
import { acceptsGateway } from './accepts-gateway.ts'
import { isLong, readAside } from './aside.ts'

/**
 * Turns the text of a gateway's configuration (YAML 1.2 or JSON) into its value, with the schema's defaults in place.
 * Rejects with a ConfigError that has all findings. What finds these is loaded where there are any, and what reads YAML
 * where the text is no JSON: ten idle gateways out of ten need neither for long.
 *
 * `inForce`: the configuration that serves meanwhile; then nothing here keeps the event loop for long.
 */
export async function readGateway(text: string, file?: string, inForce?: GatewayConfig): Promise<GatewayConfig> {
  const isAside = inForce !== undefined && isLong(text)
  const value = jsonOf(text) ?? (isAside ? await readAside<unknown>('yaml', text, file) : await yamlOf(text))
  if (acceptsGateway(value)) {
    const config = value as GatewayConfig
    if (inForce !== undefined) await checkStepwise(config, inForce)
    if (checkGateway(config).length === 0) return config
  }
  if (isAside) return readAside('gateway', text, file)
  const { parseGateway } = await import('./gateway-findings.ts')
  return parseGateway(text, file)
}

/** Checks what can take long, but for policies that are in force. */
async function checkStepwise({ authz, name, compositeTools = [] }: GatewayConfig, inForce: GatewayConfig) {
  const policies = (config: Pick<GatewayConfig, 'authz' | 'name'>) => JSON.stringify([config.name, config.authz])
  if (authz !== undefined && policies({ authz, name }) !== policies(inForce)) await checkAuthzStepwise(authz)
  await compileStepwise(compositeTools)
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
