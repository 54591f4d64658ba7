import { gateProblems } from '../../config/gate-problems.ts'
import type { GatewayStatus } from '../../config/status.ts'
import { countShownTools } from '../aggregation/catalog.ts'
import { definitionCounts, definitionProblem } from './approvals.ts'
import type { Gateway } from './gateway.ts'

/** Returns the gateway's status as the admin listener serves it. */
export function buildStatus(gateway: Gateway): GatewayStatus {
  const { setup, sessions, shared } = gateway
  const gate = gateway.gate?.status ?? null
  const shown = countShownTools(shared.catalog)
  return {
    config: setup.hash,
    refused: gateway.refused,
    problems: listProblems(gateway, gate),
    sessions: sessions.count,
    sessionStorage: sessions.provider,
    authServer: setup.ownIssuer.status ?? null,
    rateLimits: gateway.rateLimits.status,
    toolSearch: gateway.search?.status ?? null,
    catalogGate: gate,
    workflows: gateway.workflows.statesOf(shared.catalog.composites.keys()),
    backends: shared.backends.map((backend) => ({
      name: backend.name,
      url: backend.url.href,
      health: backend.health.state,
      revision: backend.revision,
      circuit: backend.health.circuit,
      lastError: backend.health.lastError ?? null,
      since: backend.health.illSince ?? null,
      tools: shown.get(backend.name) ?? 0,
      latencyMs: backend.tools === undefined ? null : backend.health.latencyMs,
      definitions: definitionCounts(backend, gateway.views.backendsOf(backend.name)),
    })),
  }
}

/** Returns the problems in spite of which the gateway serves. */
function listProblems(
  { setup, shared, views, storageProblem, rateLimits, search, audit }: Gateway,
  gate: GatewayStatus['catalogGate'],
): GatewayStatus['problems'] {
  const { catalog, promptsAndResources, backends, conflicts } = shared
  const buildWarnings = (code: string, messages: readonly string[]) =>
    messages.map((message) => ({ severity: 'warning' as const, code, message }))
  return [
    ...buildWarnings('AggregationConflict', conflicts),
    ...buildWarnings('ToolRenamed', catalog.warnings),
    ...buildWarnings('CompositeTool', catalog.compositeProblems),
    ...buildWarnings('SkillWithheld', promptsAndResources.skills?.withheld ?? []),
    ...buildWarnings('SessionStorageUnavailable', storageProblem === undefined ? [] : [storageProblem]),
    ...buildWarnings('RateLimitsNotKept', rateLimits.problems),
    ...buildWarnings('EmbeddingsUnavailable', search?.problem === undefined ? [] : [search.problem]),
    ...gateProblems(gate).flatMap(([code, message]) => buildWarnings(code, [message])),
    ...buildWarnings('AuditLogUnavailable', audit.problem === undefined ? [] : [audit.problem]),
    ...(setup.ownIssuer.status?.trustedIssuers ?? []).flatMap(({ issuer, problem }) =>
      problem === null ? [] : buildWarnings(problem.code, [`${issuer}: ${problem.message}`]),
    ),
    ...backends.flatMap((backend) => {
      const problem = definitionProblem(backend, views.backendsOf(backend.name))
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
    ...[...views.cut].flatMap(([name, callers]) =>
      buildWarnings('ListCut', [
        `${name}: lists of ${callers} callers are cut: they are larger than there is room for`,
      ]),
    ),
  ]
}
