import { distinctHeaderKeys } from '../headers.ts'
import { limits } from '../limits.ts'
import { choice, decimal, defaulted, duration, integer, map, object, Type, text, url } from '../schema.ts'

/** Tool search. */
export const optimizer = object(
  'Tool search: clients see `find_tool` and `call_tool` in place of all tools.',
  {
    embeddingProvider: defaulted(
      choice('later', 'Protocol of the embedding service.', ['tei', 'openai'], { default: 'tei' }),
    ),
    embeddingService: Type.Optional(url('later', 'Embedding service. Absent: full-text search alone.')),
    embeddingModel: Type.Optional(text('later', 'Model.', { max: limits.name })),
    embeddingServiceTimeout: defaulted(duration('later', 'Longest wait for it.', { default: '30s' })),
    embeddingHeaders: Type.Optional(
      map(
        'Headers of its requests.',
        text('later', 'The value.', { min: 1, max: limits.headerValue, pattern: '^[^\\x00-\\x1f\\x7f]*$' }),
        {
          max: 32,
          rules: [
            {
              rule: "self.all(name, name.matches('^[!#$%&*+.^_|~0-9A-Za-z-]+$') && !(name.lowerAscii() in ['authorization', 'content-type']))",
              message: 'keys must be header names other than Authorization and Content-Type',
            },
            distinctHeaderKeys,
          ],
        },
      ),
    ),
    maxToolsToReturn: Type.Optional(
      integer('gateway', 'Most tools that a search gives; 8 when left out.', { minimum: 1, maximum: 50 }),
    ),
    hybridSearchSemanticRatio: Type.Optional(decimal('later', 'Weight of meaning against words, 0 to 1.')),
    semanticDistanceThreshold: Type.Optional(decimal('later', 'Largest distance of a match, 0 to 2.')),
  },
  {
    readBy: 'gateway',
    rules: [
      {
        rule: "!has(self.embeddingHeaders) || self.embeddingProvider == 'openai'",
        message: 'embeddingHeaders are for embeddingProvider openai',
      },
    ],
  },
)
