/** Checks that the manifests of docs/tool-search.md are valid and reach the gateway. */
import { readFileSync } from 'node:fs'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { parse, parseAllDocuments } from 'yaml'
import { DEFAULT_GROUP, validateObject } from '../../crds/index.ts'
import { condition, configText, plansOfText } from '../support/operator/plans.ts'

const text = readFileSync(new URL('../../docs/tool-search.md', import.meta.url), 'utf8')
const [block = '', meant = ''] = [...text.matchAll(/^```yaml\n(.*?)^```/gms)].map((match) => match[1] as string)

test('the example is valid, and is in the configuration of the gateway', () => {
  for (const document of parseAllDocuments(block))
    assert.equal(validateObject(document.toJS() as never, DEFAULT_GROUP), [])
  const plan = plansOfText(block).get('VirtualMCPServer/tools')
  assert.is(condition(plan, 'Valid'), 'True ConfigValid')
  assert.match(configText(plan), /optimizer:\n {2}maxToolsToReturn: 5/)
})

test('an empty optimizer block turns tool search on', () => {
  const plan = plansOfText(block.replace(/optimizer:\n.*\n/, 'optimizer: {}\n')).get('VirtualMCPServer/tools')
  assert.is(condition(plan, 'Valid'), 'True ConfigValid')
  assert.match(configText(plan), 'optimizer: {}')
})

test('an embedding service is in the configuration of the gateway, and its key is a file of the pod', () => {
  for (const document of parseAllDocuments(meant))
    assert.equal(validateObject(document.toJS() as never, DEFAULT_GROUP), [])
  const secret = 'kind: Secret\nmetadata: {name: embeddings}\nstringData: {api-key: k}'
  const plan = plansOfText(`${meant}\n---\n${secret}`).get('VirtualMCPServer/meant')
  assert.is(condition(plan, 'Valid'), 'True ConfigValid')
  const { optimizer } = parse(configText(plan))
  assert.equal(optimizer, {
    embeddingProvider: 'openai',
    embeddingService: 'https://api.example.com/v1',
    embeddingModel: 'text-embedding-3-small',
    embeddingApiKeyFile: '../secrets/embeddings/api-key',
    embeddingHeaders: { 'x-team': 'tools' },
    embeddingServiceTimeout: '2s',
    hybridSearchSemanticRatio: '0.6',
    semanticDistanceThreshold: '0.9',
  })
})

test.run()
