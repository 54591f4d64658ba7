import { isObject } from '../../../crds/shared/json.ts'
import { parseExact } from './exact-json.ts'
import { StepFailure } from './failure.ts'
import type { Finished } from './records.ts'

/** In characters: of what a tool says about its failure. */
const LONGEST_REASON = 2_000

/** What templates see of a tool's result (JSON text). Throws a StepFailure where the tool has failed, or gave no result. */
export function finishedBy(text: string): Finished {
  const result = parsed(text)
  if (!isObject(result)) throw new StepFailure('the tool gave no result')
  const said = textIn(result['content'])
  if (result['isError'] === true) throw new StepFailure(said.slice(0, LONGEST_REASON) || 'the tool has failed')
  const structured = result['structuredContent']
  const output = isObject(structured) ? structured : {}
  return {
    status: 'completed',
    output: Object.hasOwn(output, 'text') ? output : { ...output, text: said },
  }
}

function parsed(text: string): unknown {
  try {
    return parseExact(text)
  } catch {
    throw new StepFailure('the tool gave a result that can’t be read: it is nested too deep, or no JSON')
  }
}

/** The texts of a result, joined by line breaks. */
function textIn(content: unknown): string {
  if (!Array.isArray(content)) return ''
  let texts = ''
  let isFirst = true
  for (const part of content) {
    if (!isObject(part) || part['type'] !== 'text' || typeof part['text'] !== 'string') continue
    texts += isFirst ? part['text'] : `\n${part['text']}`
    isFirst = false
  }
  return texts
}
