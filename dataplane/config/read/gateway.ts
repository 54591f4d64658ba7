import { checkAuthzStepwise } from '../check/authz.ts'
import { checkGateway } from '../check/gateway.ts'
import type { GatewayConfig } from '../gateway.ts'
import { parseJsonObject } from '../load.ts'
import { compileStepwise } from '../workflow/compile.ts'
import { acceptsGateway } from './accepts-gateway.ts'
import { isLong, readAside } from './aside.ts'

/**
 * Turns the text of a gateway's configuration (YAML 1.2 or JSON) into its value, with defaults. Rejects with a
 * ConfigError. The code for findings and the YAML parser are loaded only when needed. `inForce`: the configuration that
 * serves meanwhile; with it this function never blocks the event loop for long.
 */
export async function readGateway(text: string, file?: string, inForce?: GatewayConfig): Promise<GatewayConfig> {
  const isAside = inForce !== undefined && isLong(text)
  const value =
    parseJsonObject(text) ?? (isAside ? await readAside<unknown>('yaml', text, file) : await parseYaml(text))
  if (acceptsGateway(value)) {
    const config = value as GatewayConfig
    if (inForce !== undefined) await checkStepwise(config, inForce)
    if (checkGateway(config).length === 0) return config
  }
  if (isAside) return readAside('gateway', text, file)
  const { parseGateway } = await import('./gateway-findings.ts')
  return parseGateway(text, file)
}

/** Runs the slow checks in steps, except for policies that are already in force. */
async function checkStepwise({ authz, name, compositeTools = [] }: GatewayConfig, inForce: GatewayConfig) {
  const policies = (config: Pick<GatewayConfig, 'authz' | 'name'>) => JSON.stringify([config.name, config.authz])
  if (authz !== undefined && policies({ authz, name }) !== policies(inForce)) await checkAuthzStepwise(authz)
  await compileStepwise(compositeTools)
}

/** Returns the value of a YAML text; undefined if it is no YAML. */
async function parseYaml(text: string): Promise<unknown> {
  const { readYaml, valueOfYaml } = await import('./yaml.ts')
  try {
    return valueOfYaml(readYaml(text))
  } catch {
    return undefined
  }
}
