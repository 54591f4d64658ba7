import type { Part } from '../gateway/parts.ts'
import {
  buildBackendSettings,
  buildSettings,
  EXPORTS_EACH_SECOND,
  type Feature,
  needsTokens,
  type Surroundings,
} from './features.ts'
import { startGateway } from './gateway.ts'
import type { Shipped } from './image.ts'
import { gatewayName, type Target } from './measure.ts'

export const namedBackends = (backends: readonly Part[], more: object = {}) =>
  backends.map(({ origin }, index) => ({ name: `b${index}`, url: `${origin}/mcp`, ...more }))

interface Settings {
  readonly name: string
  readonly shipped: Shipped
  readonly directory: string
  readonly settings: object
  readonly ofBackends?: object
  /** The callers' tokens; absent where they are anonymous. */
  readonly tokens?: readonly string[]
  readonly tool?: (worker: number, count: number) => string
  readonly isOptional?: boolean
}

export function gatewayTarget(options: Settings): Target {
  const { name, shipped, directory, settings, ofBackends, tokens = [], tool = gatewayName(), isOptional } = options
  let isLeftOut = false
  return {
    name,
    async start(_era, backends) {
      if (isLeftOut) return undefined
      const config = { ...settings, backends: namedBackends(backends, ofBackends) }
      try {
        const { pid, origin, adminOrigin, end } = await startGateway(shipped, directory, config, EXPORTS_EACH_SECOND)
        const metrics = JSON.stringify(settings).includes('"prometheus"') ? `${adminOrigin}/metrics` : undefined
        return { pid, origin, name: tool, hasSessions: true, tokens, metrics, end }
      } catch (error) {
        if (isOptional !== true) throw error
        isLeftOut = true
        console.log(`${name} is left out: ${String(error).slice(0, 300)}`)
        return undefined
      }
    },
  }
}

export const featureTarget = (
  options: Pick<Settings, 'name' | 'shipped' | 'directory' | 'isOptional'>,
  feature: Feature,
  surroundings: Surroundings,
): Target =>
  gatewayTarget({
    ...options,
    settings: buildSettings(feature, surroundings, options.directory),
    ofBackends: buildBackendSettings(feature),
    ...(needsTokens(feature) && { tokens: surroundings.tokens }),
  })
