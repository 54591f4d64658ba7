import { isObject } from '../../../../crds/shared/json.ts'

/** How one kind of embedding service is asked, and where in its answer the vectors are. */
export interface Protocol {
  /** Where requests go; `service` is what the configuration names. */
  url(service: string): string
  body(texts: readonly string[], model: string | undefined): object
  /** What stands for each text, in their order; undefined where the answer is none. */
  vectorsIn(answer: unknown, count: number): readonly unknown[] | undefined
}

/** text-embeddings-inference, `POST /embed` (https://huggingface.github.io/text-embeddings-inference). */
const tei: Protocol = {
  url: (service) => endpointOf(service, '/embed', (path) => `${path}/embed`),
  body: (texts) => ({ inputs: texts, truncate: true }),
  vectorsIn: (answer, count) => (Array.isArray(answer) && answer.length === count ? answer : undefined),
}

/** `POST /v1/embeddings` of OpenAI (https://platform.openai.com/docs/api-reference/embeddings/create), and of those like it. */
const openai: Protocol = {
  url: (service) =>
    endpointOf(service, '/embeddings', (path) => `${path}${path.endsWith('/v1') ? '' : '/v1'}/embeddings`),
  body: (texts, model) => ({ model, input: texts, encoding_format: 'float' }),
  vectorsIn(answer, count) {
    const data = isObject(answer) ? answer['data'] : undefined
    return Array.isArray(data) && data.length === count ? inOrder(data) : undefined
  },
}

export const protocols: Readonly<Record<'tei' | 'openai', Protocol>> = { tei, openai }

/** A URL with the path of an endpoint, which it may have already; its query stays. */
function endpointOf(service: string, end: string, completed: (path: string) => string): string {
  const url = new URL(service)
  const path = url.pathname.endsWith('/') ? url.pathname.slice(0, -1) : url.pathname
  url.pathname = path.endsWith(end) ? path : completed(path)
  return url.href
}

/** Each item says for which text it is; an `index` that is none, or is there twice, leaves another text without. */
function inOrder(data: readonly unknown[]): readonly unknown[] {
  const vectors = new Array<unknown>(data.length)
  for (const [place, item] of data.entries()) {
    if (!isObject(item)) continue
    const { index = place, embedding } = item
    if (typeof index === 'number' && index in data) vectors[index] = embedding
  }
  return vectors
}
