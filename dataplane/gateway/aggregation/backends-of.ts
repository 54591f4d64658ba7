import type { GatewayConfig } from '../../config/gateway.ts'
import { shapeOf } from './shape.ts'

/**
 * Returns the backends that may have a tool, prompt or resource, as far as the configuration tells: the one that is named,
 * else those whose prefix its name has.
 */
export function backendsOf(
  config: GatewayConfig,
  { id, backend }: { readonly id: string; readonly backend?: string | undefined },
): readonly string[] {
  const names = config.backends.map(({ name }) => name)
  if (backend !== undefined) return names.filter((name) => name === backend)
  if (config.role === 'proxy') return names
  return names.filter((name) => {
    const { prefix } = shapeOf(config, name)
    return prefix !== '' && id.startsWith(prefix)
  })
}
