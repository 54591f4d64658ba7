import { globSync, readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { referencePages } from '../../check/reference.ts'
import { kinds } from '../../crds/index.ts'
import { conditionTypes, fileReasons, reasons } from '../../operator/model/reasons.ts'

const pages = await referencePages()
/** Returns the line of a table that describes a field. */
function line(page: string, section: string, field: string): string {
  const text = pages.get(page) ?? ''
  const start = text.indexOf(`\n## \`${section}\`\n`)
  assert.ok(start >= 0, `${page} has no section ${section}`)
  const end = text.indexOf('\n## ', start + 1)
  return (
    text
      .slice(start, end === -1 ? undefined : end)
      .split('\n')
      .find((one) => one.startsWith(`| \`${field}\` |`)) ?? ''
  )
}

test('the reference of a field has its type, whether it is required, its limits and its description', () => {
  assert.is(
    line('mcpoidcconfig.md', 'spec.inline', 'issuer'),
    '| `issuer` | text | **required** | at most 2048 characters; matches `^https?://[^\\s]+$` | Issuer, compared exactly with `iss`. |',
  )
  assert.match(
    line('mcpoidcconfig.md', 'spec.inline', 'audienceClaim'),
    /\| text \| `"aud"` \| at least 1, at most 256 /,
  )
  assert.match(line('mcpoidcconfig.md', 'spec.inline', 'clientSecretRef'), /\| `\{name, key\}` of a Secret \|/)
})

test('a field in a list, a map or a list of lists has a section of its own', () => {
  assert.match(line('gateway-file.md', 'backends[]', 'name'), /\*\*required\*\*/)
  assert.match(line('virtualmcpserver.md', 'spec.outgoingAuth.backends.*', 'type'), /`discovered`/)
})

test('a refused field says why, and what to set instead', () => {
  const refused = line('virtualmcpserver.md', 'spec.config', 'telemetry')
  assert.match(refused, /\*\*Refused\*\*: use spec\.telemetryConfigRef, with an MCPTelemetryConfig\./)
  assert.match(
    line('mcpexternalauthconfig.md', 'spec', 'type'),
    /`obo` is \*\*refused\*\*: .* use tokenExchange or xaa\./,
  )
})

test('rules across fields stand below their table', () => {
  assert.match(pages.get('mcpoidcconfig.md') ?? '', /\nRules:\n\n(- .*\n)*- issuer must be https, /)
})

test('every kind has a page, and the first page leads to all', () => {
  const index = pages.get('README.md') ?? ''
  for (const name of pages.keys()) if (name !== 'README.md') assert.ok(index.includes(`(${name})`), name)
  assert.is(pages.size, 20)
})

const root = new URL('../..', import.meta.url).pathname
/** Words in the form of reasons that are none: kinds and fields of Kubernetes, conditions of pods, our own errors. */
const OTHERS = new Set(
  `AdmissionReview ClientIP ClusterRole ClusterRoleBinding ConfigMap ConfigReady ContainerCreating CustomResourceDefinition
  ExternalName LoadBalancer NetworkPolicy NameHeldError NamespaceGoingError NotLeadingError OrderedReady PodInitializing
  PodProblem PodScheduled ReplicaSet ResolvedRefs RoleBinding ServiceAccount StatefulSet UsageError
  ValidatingWebhookConfiguration AbortError DaemonSet HTTPRoute`.split(/\s+/),
)
const sources = globSync('operator/{model,reconcile,runtime,standalone,cluster/files}/**/*.ts', { cwd: root })
  .filter((path) => path !== 'operator/model/reasons.ts')
  .map((path) => readFileSync(`${root}${path}`, 'utf8'))
  .join('\n')

test('every reason and condition of the operator is documented, with what to do', () => {
  const words = new Set([...sources.matchAll(/'([A-Z][a-z]+(?:[A-Z]+[a-z]*)+)'/g)].map(([, word]) => word as string))
  const known = new Set([...Object.keys({ ...reasons, ...fileReasons, ...conditionTypes, ...kinds }), ...OTHERS])
  const untold = [...words].filter((word) => !known.has(word) && !Object.hasOwn(kinds, word))
  assert.equal(untold.sort(), [], 'add them to operator/model/reasons.ts')
})

test('no reason is documented that nothing reports', () => {
  // Kubernetes' own reasons, which are passed on.
  const theirs = new Set(['CrashLoopBackOff', 'Evicted', 'ImagePullBackOff'])
  const documented = Object.keys({ ...reasons, ...fileReasons, ...conditionTypes }).filter((name) => !theirs.has(name))
  const unused = documented.filter((name) => !sources.includes(`'${name}'`) && !new RegExp(`\\b${name}:`).test(sources))
  assert.equal(unused, [])
})

test.run()
