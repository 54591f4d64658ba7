import type { GatewayConfig } from '../../config/gateway.ts'
import type { Catalogs } from '../access/visible-lists.ts'
import { buildCatalog } from '../aggregation/catalog.ts'
import { buildPromptResourceCatalog, holderOf } from '../aggregation/prompt-resource-catalog.ts'
import type { Backend } from '../backends/backend/backend.ts'

/** The catalogs of these backends: whose page a tool may have depends on who has which resource. */
export function buildCatalogs(config: GatewayConfig, backends: readonly Backend[]): Catalogs {
  const promptsAndResources = buildPromptResourceCatalog(config, backends)
  const catalog = buildCatalog(config, backends, (uri) => holderOf(promptsAndResources, uri))
  return { catalog, promptsAndResources }
}
