import type { ReceivedSpan } from './otlp-receiver.ts'

const KINDS = ['unspecified', 'internal', 'server', 'client']

/**
 * Returns spans as lines of kind and name, children below their parent and siblings in the order of their lines.
 * `attributes` are shown as well, if a span has them.
 */
export function spanTree(spans: readonly ReceivedSpan[], attributes: readonly string[] = []): readonly string[] {
  const ids = new Set(spans.map(({ spanId }) => spanId))
  const attributeNames = ['error.type', ...attributes]
  const formatSpan = (span: ReceivedSpan) => {
    const values = attributeNames.flatMap((name) =>
      name in span.attributes ? [`${name}=${span.attributes[name]}`] : [],
    )
    return [KINDS[span.kind], span.name, ...(span.failed ? ['failed'] : []), ...values].join(' ')
  }
  const formatBelow = (parents: readonly ReceivedSpan[], depth: string): readonly string[] =>
    parents
      .map((span) => {
        const children = spans.filter(({ parentSpanId }) => parentSpanId === span.spanId)
        return [`${depth}${formatSpan(span)}`, ...formatBelow(children, `${depth}  `)].join('\n')
      })
      .sort()
      .flatMap((text) => text.split('\n'))
  return formatBelow(
    spans.filter(({ parentSpanId }) => !ids.has(parentSpanId)),
    '',
  )
}
