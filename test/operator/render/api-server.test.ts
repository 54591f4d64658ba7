/** Sends every rendered object to a real API server, which must accept it strictly and return it unchanged. */
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { stringify } from 'yaml'
import { createView, type KubernetesObject } from '../../../operator/model/index.ts'
import { planAll } from '../../../operator/reconcile/index.ts'
import { matches } from '../../../operator/runtime/children/matches.ts'
import { type ControlPlane, startControlPlane } from '../../cluster/support/control-plane.ts'
import { installGatewayApi } from '../../cluster/support/gateway-api.ts'
import { context, worldContent } from '../../support/operator/plans.ts'

const folder = new URL('../golden/', import.meta.url)
const inputs = readdirSync(folder).filter((name) => name.endsWith('.in.yaml'))

const childrenOf = (name: string): readonly KubernetesObject[] =>
  planAll(createView(worldContent(readFileSync(new URL(name, folder), 'utf8'))), context).flatMap(({ plan }) =>
    plan.children === 'hold' ? [] : plan.children,
  )

/** The namespaces that the inputs name, without the one that every API server has. */
const namespaces = new Set(inputs.flatMap(childrenOf).flatMap(({ metadata: { namespace } }) => namespace ?? []))
namespaces.delete('default')

let plane: ControlPlane
test.before(async () => {
  plane = await startControlPlane()
  await installGatewayApi(plane)
  for (const namespace of namespaces) plane.kubectl(['create', 'namespace', namespace])
  plane.kubectl(['label', 'namespace', 'default', 'pod-security.kubernetes.io/enforce=restricted'])
})
test.after(() => plane?.stop())

for (const name of inputs) {
  test(`${name}: the API server accepts every child strictly, and returns it as rendered`, () => {
    const children = childrenOf(name)
    if (children.length === 0) return assert.match(name, /stdio|configs/)
    const applied = JSON.parse(
      plane.kubectl(['apply', '--server-side', '--validate=strict', '--dry-run=server', '-f', '-', '-o', 'json'], {
        input: children.map((child) => stringify(child)).join('---\n'),
      }),
    ) as KubernetesObject & { items?: KubernetesObject[] }
    const live = applied.items ?? [applied]
    assert.is(live.length, children.length)
    for (const [at, child] of children.entries()) {
      const title = `${child.kind} ${child.metadata.name}`
      assert.is(live[at]?.metadata.name, child.metadata.name, title)
      assert.ok(
        matches(child, live[at] as KubernetesObject),
        `${title} comes back otherwise: ${JSON.stringify(live[at])}`,
      )
    }
  })
}

test.run()
