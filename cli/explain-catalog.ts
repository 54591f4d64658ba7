import { readFileSync } from 'node:fs'
import { gateDefaults } from '../crds/settings/gateway/defaults.ts'
import type { GatewayConfig } from '../dataplane/config/gateway.ts'
import { findBackends } from '../dataplane/gateway/aggregation/shape.ts'
import { membersOf } from '../dataplane/gateway/gate/catalog-gate.ts'
import { judgeMembers, type Snapshot } from '../dataplane/gateway/gate/decision.ts'
import { explainCatalog } from '../dataplane/gateway/gate/explain.ts'
import { matchMembers } from '../dataplane/gateway/gate/match.ts'
import { type GatePage, type KnownClaims, readGatePage } from '../dataplane/gateway/gate/rows.ts'
import { joinPages } from '../dataplane/gateway/gate/snapshot-file.ts'
import type { Explanation, Question } from '../dataplane/policy/index.ts'
import { UsageError } from './command.ts'

/** Reads a file with the answer of a registry's gate, or with a list of its pages. Throws a UsageError for another. */
export function readRegistry(file: string): Snapshot {
  try {
    const value: unknown = JSON.parse(readFileSync(file, 'utf8'))
    const known: KnownClaims = new Map()
    const pages = (Array.isArray(value) ? value : [value]).map((page) => readGatePage(page, known))
    if (pages.length === 0) throw new Error('there is no page')
    return joinPages(pages as [GatePage, ...GatePage[]])
  } catch (error) {
    throw new UsageError(`--registry: ${(error as Error).message}`)
  }
}

/** Adds the catalog's answer in the gateway of this configuration. Throws a UsageError if no backend is known. */
export function withCatalog(
  { catalogGate, ...config }: GatewayConfig,
  registry: Snapshot | undefined,
  { caller, id, backend }: Pick<Question, 'caller' | 'id'> & { readonly backend: string | undefined },
  explanation: Explanation,
): Explanation {
  if (registry === undefined || catalogGate === undefined) return explanation
  const { match = gateDefaults.match, mode } = catalogGate
  const [only, ...more] = findBackends(config, { id, backend })
  if (only === undefined || more.length > 0)
    throw new UsageError('--registry: say which backend has it: --backend NAME')
  const asked = membersOf(config, catalogGate)
  const matched = { rules: registry, matches: matchMembers(asked, registry.rows, match) }
  const members = judgeMembers(asked, [{ name: 'of the file', matched }])
  const question = { members, backends: [only], claims: caller ?? {}, enforces: mode === 'enforce' }
  return explainCatalog(question, explanation)
}
