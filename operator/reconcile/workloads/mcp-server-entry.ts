import { type MCPServerEntry, mcpGroup, mcpServerEntry } from '../../../crds/index.ts'
import { backendFindings } from '../../../dataplane/config/check/gateway.ts'
import type { BackendConfig } from '../../../dataplane/config/gateway.ts'
import type { ClusterView } from '../../model/view.ts'
import { type Mounts, startMounts } from '../../render/pod/mounts.ts'
import { backendHeaders, checkRemoteUrl, httpTransport, mayBePrivate } from '../backends/http-backend.ts'
import { checkCredential } from '../backends/outgoing-credential.ts'
import { settle } from '../configs/config.ts'
import { generationOf, startConditions } from '../outcome/conditions.ts'
import { noteInvalid, partFindings } from '../outcome/file-findings.ts'
import type { ExplainedPlan, ReconcileContext } from '../outcome/plan.ts'
import { startProblems } from '../outcome/problems.ts'
import { checkSupported } from '../outcome/supported.ts'
import { caBundleFile } from '../references/ca-bundle.ts'
import { type Resolver, startResolver } from '../references/resolver.ts'

/** Builds a gateway's backend from an entry, with its CA bundle and header files in the gateway's pod. */
export function entryBackend(
  object: MCPServerEntry,
  resolver: Resolver,
  mounts: Mounts,
  context: ReconcileContext,
): BackendConfig {
  const { spec, metadata } = object
  const ca = caBundleFile(spec.caBundleRef, '/spec/caBundleRef', resolver, mounts)
  return {
    name: metadata.name,
    url: spec.remoteUrl,
    ...httpTransport(spec),
    ...(ca === undefined ? {} : { caBundleFile: ca }),
    ...backendHeaders(spec.headerForward, resolver, mounts),
    allowPrivateIP: mayBePrivate(spec, context),
  }
}

/**
 * Finds everything that keeps an entry from being served. Without `credentials` its credential settings are not
 * checked: a gateway that is configured to send none to it doesn't need them.
 */
export function checkEntry(
  object: MCPServerEntry,
  resolver: Resolver,
  context: ReconcileContext,
  options: { credentials: boolean },
): void {
  const { problems } = resolver
  checkSupported(mcpServerEntry, object, problems)
  if (options.credentials) checkCredential(object.spec.externalAuthConfigRef, resolver)
  resolver.object(mcpGroup, object.spec.groupRef.name)
  checkRemoteUrl(object.spec, context, problems)
  const backend = entryBackend(object, resolver, startMounts('config'), context)
  for (const { pointer, message } of backendFindings(backend, ''))
    problems.add('Valid', 'ConfigInvalid', { message: `${pointer} ${message}` })
  if (problems.none) noteInvalid(partFindings({ backends: [backend] }, PLACES), problems)
}

const PLACES = {
  '/backends/0/url': '/spec/remoteUrl',
  '/backends/0/headers': '/spec/headerForward/addPlaintextHeaders',
  '/backends/0': '/spec',
}

/** Plans an entry: a remote server in a group. It has no pods; the gateways of the group call it. */
export function reconcileMcpServerEntry(
  object: MCPServerEntry,
  view: ClusterView,
  context: ReconcileContext,
): ExplainedPlan {
  const problems = startProblems()
  checkEntry(object, startResolver(view, object.metadata.namespace, problems), context, { credentials: true })
  const conditions = startConditions(object, context.now)
  const events = settle(problems, conditions)
  return {
    children: [],
    status: {
      conditions: conditions.list(),
      observedGeneration: generationOf(object),
      phase: problems.none ? 'Valid' : 'Failed',
    },
    events,
    finalizer: false,
    problems: problems.all(),
  }
}
