/** Sends every rendered object to a real API server, which must accept it strictly and return it unchanged. */
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { createView, type KubernetesObject } from '../../../operator/model/index.ts'
import { planAll } from '../../../operator/reconcile/index.ts'
import { matches } from '../../../operator/runtime/children/matches.ts'
import { context, worldContent } from '../../support/operator/plans.ts'
import { unwrap } from '../../support/unwrap.ts'
import { newCluster } from '../support/cluster.ts'
import { installGatewayApi } from '../support/gateway-api.ts'
import { buildNamespace } from '../support/manifests.ts'

const folder = new URL('../../operator/golden/', import.meta.url)
const inputs = readdirSync(folder).filter((name) => name.endsWith('.in.yaml'))

const listChildren = (name: string): readonly KubernetesObject[] =>
  planAll(createView(worldContent(readFileSync(new URL(name, folder), 'utf8'))), context).flatMap(({ plan }) =>
    plan.children === 'hold' ? [] : plan.children,
  )

/** The namespaces of the inputs, except `default`, which every API server has. */
const namespaces = new Set(inputs.flatMap(listChildren).flatMap(({ metadata: { namespace } }) => namespace ?? []))
namespaces.delete('default')

const cluster = newCluster()

test.before(async () => {
  await installGatewayApi(await cluster.bare())
  cluster.apply(...[...namespaces].map((name) => buildNamespace(name)))
  const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' }
  cluster.mergePatch('namespace', 'default', { metadata: { labels } })
})
test.after(() => cluster.stop())

for (const name of inputs) {
  test(`${name}: the API server accepts every child strictly, and returns it as rendered`, () => {
    const children = listChildren(name)
    if (children.length === 0) return assert.match(name, /stdio|configs/)
    const live = cluster.applyOnServer(children, { dryRun: true })
    assert.is(live.length, children.length)
    for (const [at, child] of children.entries()) {
      const title = `${child.kind} ${child.metadata.name}`
      assert.is(live[at]?.metadata.name, child.metadata.name, title)
      assert.ok(matches(child, unwrap(live[at])), `${title} comes back otherwise: ${JSON.stringify(live[at])}`)
    }
  })
}

test.run()
