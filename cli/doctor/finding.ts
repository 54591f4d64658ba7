/** The result of one check. An `error` blocks callers or logins; a `warning` may. */
export interface Finding {
  readonly severity: 'ok' | 'note' | 'warning' | 'error'
  readonly check: string
  readonly message: string
  readonly fix?: string
}

export const ok = (check: string, message: string): Finding => ({ severity: 'ok', check, message })
export const note = (check: string, message: string): Finding => ({ severity: 'note', check, message })
export const warning = (check: string, message: string, fix: string): Finding => ({
  severity: 'warning',
  check,
  message,
  fix,
})
export const error = (check: string, message: string, fix: string): Finding => ({
  severity: 'error',
  check,
  message,
  fix,
})

/** Formats a provider's text as one short line of plain text. */
export const formatValue = (value: unknown): string => {
  const text = (JSON.stringify(value) ?? 'nothing').replace(/[^\x20-\x7e]/g, '�')
  return text.length > 200 ? `${text.slice(0, 200)}…` : text
}
