import { invalidAt, type CustomField, type CustomFieldData, type Invalid } from '@bursar/contract'

type Answer = CustomFieldData[string]
interface Asked {
  readonly custom_field: CustomField
  readonly required: boolean
}

/**
 * Validates the buyer's answers to custom fields. Answers to unknown fields are dropped. Answers to required fields are
 * mandatory only with `complete`, that is, when the buyer confirms the checkout.
 */
export const readAnswers = (
  asked: readonly Asked[],
  given: CustomFieldData,
  { complete }: { complete: boolean },
): { answers: CustomFieldData; problems: Invalid[] } => {
  const answers: CustomFieldData = {}
  const problems: Invalid[] = []
  for (const { custom_field, required } of asked) {
    const answer = given[custom_field.slug]
    const absent = answer === undefined || answer === null || answer === ''
    const msg = absent ? (complete && required ? 'The seller requires an answer.' : undefined) : fault(custom_field, answer, required && complete)
    if (msg !== undefined)
      problems.push(
        absent
          ? { loc: ['body', 'custom_field_data', custom_field.slug], msg, type: 'missing' }
          : invalidAt(['body', 'custom_field_data', custom_field.slug], msg, answer),
      )
    else if (answer !== undefined) answers[custom_field.slug] = absent ? null : answer
  }
  return { answers, problems }
}

/** Returns the error message for an invalid answer, or undefined if the answer is valid. */
const fault = (field: CustomField, answer: NonNullable<Answer>, mustAgree: boolean): string | undefined => {
  switch (field.type) {
    case 'text': {
      const { min_length = 0, max_length = Infinity } = field.properties
      if (typeof answer !== 'string') return 'Expected text.'
      if (answer.length < min_length) return `Expected at least ${min_length} characters.`
      return answer.length > max_length ? `Expected at most ${max_length} characters.` : undefined
    }
    case 'number':
      return typeof answer === 'number' ? outside(answer, field.properties) : 'Expected a whole number.'
    case 'date': {
      const moment = typeof answer === 'string' && /^\d{4}-\d{2}-\d{2}/.test(answer) ? Date.parse(answer) : Number.NaN
      return Number.isNaN(moment) ? 'Expected a date such as 2026-04-30.' : outside(Math.floor(moment / 1000), field.properties)
    }
    case 'checkbox':
      if (typeof answer !== 'boolean') return 'Expected true or false.'
      return mustAgree && !answer ? 'You must agree to this.' : undefined
    case 'select': {
      const values = field.properties.options.map(({ value }) => value)
      return typeof answer === 'string' && values.includes(answer) ? undefined : `Expected one of: ${values.join(', ')}.`
    }
  }
}

const outside = (value: number, { ge = -Infinity, le = Infinity }: { ge?: number | undefined; le?: number | undefined }): string | undefined =>
  value < ge || value > le ? `Expected a value from ${ge === -Infinity ? 'any' : ge} to ${le === Infinity ? 'any' : le}.` : undefined
