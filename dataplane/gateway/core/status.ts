import { gateProblems } from '../../config/gate-problems.ts'
import type { Finding } from '../../config/load.ts'
import type { CatalogGateStatus, GatewayStatus } from '../../config/status.ts'
import { type Catalog, countShownTools } from '../aggregation/catalog.ts'
import type { SkillCatalog } from '../aggregation/skill-catalog.ts'
import type { Backend } from '../backends/backend/backend.ts'
import type { RateLimits } from '../rate-limits/rate-limits.ts'
import type { Setup } from '../request/setup.ts'
import type { ToolSearch } from '../search/tool-search.ts'
import type { Sessions } from '../sessions/sessions.ts'
import type { WorkflowRuns } from '../workflows/runs.ts'
import { definitionCounts, definitionProblem } from './approvals.ts'

interface StatusParts {
  readonly setup: Setup
  /** The findings of a newer configuration that was refused. */
  readonly refused: readonly Finding[]
  readonly sessions: Sessions
  readonly catalog: Catalog
  readonly skills: SkillCatalog | undefined
  readonly backends: readonly Backend[]
  /** The number of callers whose own lists of a backend are truncated, by the backend's name. */
  readonly cutForCallers: ReadonlyMap<string, number>
  variantsOf(name: string): readonly Backend[]
  readonly runs: WorkflowRuns
  readonly conflicts: readonly string[]
  /** The reason why the configured session storage is not used; undefined if it is. */
  readonly storageProblem: string | undefined
  readonly rateLimits: RateLimits
  readonly search: ToolSearch | undefined
  readonly gate: CatalogGateStatus | null
  /** The reason why audit events are not written; undefined if they are. */
  readonly auditProblem: string | undefined
}

/** Returns the gateway's status as the admin listener serves it. */
export function buildStatus(parts: StatusParts): GatewayStatus {
  const { setup, refused, sessions, catalog, backends, rateLimits, search, runs } = parts
  const shown = countShownTools(catalog)
  return {
    config: setup.hash,
    refused,
    problems: listProblems(parts),
    sessions: sessions.count,
    sessionStorage: sessions.provider,
    authServer: setup.ownIssuer.status ?? null,
    rateLimits: rateLimits.status,
    toolSearch: search?.status ?? null,
    catalogGate: parts.gate,
    workflows: runs.statesOf(catalog.composites.keys()),
    backends: backends.map((backend) => ({
      name: backend.name,
      url: backend.url.href,
      health: backend.health.state,
      revision: backend.revision,
      circuit: backend.health.circuit,
      lastError: backend.health.lastError ?? null,
      since: backend.health.illSince ?? null,
      tools: shown.get(backend.name) ?? 0,
      latencyMs: backend.tools === undefined ? null : backend.health.latencyMs,
      definitions: definitionCounts(backend, parts.variantsOf(backend.name)),
    })),
  }
}

/** Returns the problems in spite of which the gateway serves. */
function listProblems({
  setup,
  catalog,
  skills,
  backends,
  cutForCallers,
  variantsOf,
  conflicts,
  storageProblem,
  rateLimits,
  search,
  gate,
  auditProblem,
}: StatusParts): GatewayStatus['problems'] {
  const buildWarnings = (code: string, messages: readonly string[]) =>
    messages.map((message) => ({ severity: 'warning' as const, code, message }))
  return [
    ...buildWarnings('AggregationConflict', conflicts),
    ...buildWarnings('ToolRenamed', catalog.warnings),
    ...buildWarnings('CompositeTool', catalog.compositeProblems),
    ...buildWarnings('SkillWithheld', skills?.withheld ?? []),
    ...buildWarnings('SessionStorageUnavailable', storageProblem === undefined ? [] : [storageProblem]),
    ...buildWarnings('RateLimitsNotKept', rateLimits.problems),
    ...buildWarnings('EmbeddingsUnavailable', search?.problem === undefined ? [] : [search.problem]),
    ...gateProblems(gate).flatMap(([code, message]) => buildWarnings(code, [message])),
    ...buildWarnings('AuditLogUnavailable', auditProblem === undefined ? [] : [auditProblem]),
    ...(setup.ownIssuer.status?.trustedIssuers ?? []).flatMap(({ issuer, problem }) =>
      problem === null ? [] : buildWarnings(problem.code, [`${issuer}: ${problem.message}`]),
    ),
    ...backends.flatMap((backend) => {
      const problem = definitionProblem(backend, variantsOf(backend.name))
      return problem === undefined ? [] : buildWarnings(problem.code, [problem.message])
    }),
    ...backends.flatMap(({ name, lists }) =>
      buildWarnings(
        'ListCut',
        lists.warnings.map((warning) => `${name}: ${warning}`),
      ),
    ),
    ...backends.flatMap(({ name, lists }) =>
      buildWarnings(
        'SkillsTruncated',
        lists.room('skills').isFull ? [`${name}: its list of skills is cut: it is too long`] : [],
      ),
    ),
    ...backends.flatMap(({ name, entryNotes: { skills: ofSkills, ...others } }) => [
      ...ofSkills.flatMap(({ message }) => buildWarnings('SkillInvalid', [`${name}: ${message}`])),
      ...Object.values(others)
        .flat()
        .flatMap(({ isLeftOut, message }) =>
          buildWarnings(isLeftOut ? 'EntryInvalid' : 'EntryMended', [`${name}: ${message}`]),
        ),
    ]),
    ...[...cutForCallers].flatMap(([name, callers]) =>
      buildWarnings('ListCut', [
        `${name}: lists of ${callers} callers are cut: they are larger than there is room for`,
      ]),
    ),
  ]
}
