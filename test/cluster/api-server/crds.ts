import { isDeepStrictEqual } from 'node:util'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { applyDefaults, DEFAULT_GROUP, findKind, type KindDeclaration, validateObject } from '../../../crds/index.ts'
import { ApiError, ApiServer } from '../../../operator/cluster/kubernetes/api-server.ts'
import { loadKubeConfig } from '../../../operator/cluster/kubernetes/kube-config.ts'
import { readCorpus } from '../../support/operator/crd-corpus.ts'
import { kubernetes, minorVersion } from '../support/binary.ts'
import { newCluster } from '../support/cluster.ts'

const cluster = newCluster()
const { kubectl } = cluster

test.before(() => cluster.install({ controllers: false }))
test.after(() => cluster.stop())

/** Sends an object to the API server in a dry run. Returns the defaulted spec, or the message of the refusal. */
async function verdict(api: ApiServer, plural: string, object: object): Promise<{ spec?: unknown; refused?: string }> {
  const path = `/apis/${DEFAULT_GROUP}/v1beta1/namespaces/default/${plural}`
  try {
    return await api.request('POST', path, { query: { dryRun: 'All', fieldValidation: 'Strict' }, body: object })
  } catch (error) {
    if (error instanceof ApiError && error.status < 500) return { refused: error.message }
    throw error
  }
}

test('the API server and `portico validate` give the same verdict and the same defaults on the whole corpus', async () => {
  const api = new ApiServer(loadKubeConfig(cluster.plane.kubeconfig), 'test')
  const corpus = readCorpus()
  assert.ok(corpus.length > 150)
  const differences: string[] = []
  // Kubernetes 1.29 does not limit a number to 32 bits here: it refuses the child, which the status reports.
  const holdsNumbers = minorVersion(kubernetes()('kube-apiserver')) > 29
  for (const { title, object } of corpus) {
    if (!holdsNumbers && title.endsWith('more than 32 bits')) continue
    const declaration = findKind(object.kind) as KindDeclaration
    const ours = validateObject(object, DEFAULT_GROUP)
    const theirs = await verdict(api, declaration.plural, object)
    if (ours.length > 0 !== (theirs.refused !== undefined)) {
      differences.push(`${title}: ours ${JSON.stringify(ours)}, theirs ${theirs.refused ?? 'accepted'}`)
    } else if (
      !theirs.refused &&
      // The CRDs have no defaults inside items of lists: the operator adds them when it reads an object.
      !isDeepStrictEqual(
        (applyDefaults(declaration, theirs) as { spec: unknown }).spec,
        (applyDefaults(declaration, object as never) as { spec: unknown }).spec,
      )
    ) {
      differences.push(`${title}: other defaults`)
    }
  }
  assert.equal(differences, [])
})

test('every kind has its short name, its category and its columns', () => {
  // kubectl fails for an unknown column.
  kubectl(['get', 'mcpotel,vmcp,mcpserver,mcprp,mcpg,mcpoidc,mcpextauth,mcptc,mcpauthz,mcpentry,mcpreg,vmcpctd'])
  kubectl(['get', 'portico'])
  assert.match(kubectl(['explain', 'mcpotel.spec.openTelemetry.tracing.samplingRate']), 'samplingRate <string>')
})

test('the committed CRDs are those of the default group', () => {
  const generations = () => cluster.listMetadata('crd').map(({ name, generation }) => `${name} ${generation}`)
  const before = generations()
  kubectl(['apply', '--server-side', '-k', new URL('../../../crds', import.meta.url).pathname])
  assert.equal(generations(), before)
})

test.run()
