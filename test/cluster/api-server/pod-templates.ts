/** Compares the offline rules for pod templates with the API server, whose rules they are. */
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { mergePodTemplate, type PodTemplate } from '../../../operator/render/pod/pod-template.ts'
import { findChild, plansOfText } from '../../support/operator/plans.ts'
import { refusedTemplates, takenTemplates } from '../../support/operator/refused-templates.ts'
import { kubernetes, minorVersion } from '../support/binary.ts'
import { newCluster } from '../support/cluster.ts'

const cluster = newCluster()

test.before(() => cluster.install())
test.after(() => cluster.stop())

const renderTemplate = () => {
  const text = 'kind: MCPServer\nmetadata: {name: w}\nspec: {image: a:1, transport: streamable-http}'
  const { apiVersion, kind, spec } = findChild(plansOfText(text).get('MCPServer/w'), 'Deployment')
  return { apiVersion, kind, spec: spec as { template: PodTemplate } }
}

/** Returns the API server's error for a Deployment with this template, or nothing if it accepts the template. */
function refusal(podTemplateSpec: object): string | undefined {
  const { apiVersion, kind, spec } = renderTemplate()
  const template = mergePodTemplate(spec.template, podTemplateSpec as never, {}, [])
  const object = { apiVersion, kind, metadata: { name: 'w', namespace: 'default' }, spec: { ...spec, template } }
  try {
    cluster.applyOnServer([object], { dryRun: true, validation: 'Ignore' })
    return undefined
  } catch (error) {
    return String(error)
  }
}

test('the API server refuses each template that is refused offline', () => {
  const taken = refusedTemplates.filter(([, template]) => refusal(template) === undefined)
  assert.equal(taken, [])
})

test('the API server accepts each rendered template', () => {
  // Lifecycle hooks can sleep since Kubernetes 1.30.
  const sleeps = minorVersion(kubernetes()('kube-apiserver')) > 29
  const taken = takenTemplates.filter((template) => sleeps || !JSON.stringify(template).includes('"sleep"'))
  assert.equal(
    taken.map((template) => refusal(template)),
    taken.map(() => undefined),
  )
})

test.run()
