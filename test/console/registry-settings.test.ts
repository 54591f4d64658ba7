import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { declaredRegistries, registrySettings } from '../../console/facts/catalog.ts'
import type { KubernetesObject } from '../../operator/model/index.ts'

const inText = (configYAML: string): KubernetesObject => ({
  apiVersion: 'portico.dev/v1beta1',
  kind: 'MCPRegistry',
  metadata: { name: 'r', namespace: 'default' },
  spec: { configYAML },
})

test('registries of a configYAML are read as the operator reads them', () => {
  assert.equal(declaredRegistries(inText('registries: [{name: a}, {name: b}]')), ['a', 'b'])
})

// These texts exhaust a reader that does not refuse them: each level doubles a key, each alias an answer.
const hostile: Readonly<Record<string, string>> = {
  'keys that are maps': `registries: [{name: a}]\n${'? '.repeat(40)}a`,
  'a repeated key': 'registries: [{name: a}]\nregistries: [{name: b}]',
  'aliases of aliases': `a: &a [x]\n${Array.from({ length: 30 }, (_, at) => `b${at}: &b${at} [${`*${at === 0 ? 'a' : `b${at - 1}`},`.repeat(9)}]`).join('\n')}`,
  'an open list': 'registries: [',
  'no map': '- a',
}
for (const [name, text] of Object.entries(hostile))
  test(`a configYAML that the operator refuses has no settings: ${name}`, () =>
    assert.equal(registrySettings(inText(text)), {}))

test.run()
