import { InvalidRequest } from '@bursar/contract'

export const refuseCursor = (value: string): InvalidRequest =>
  new InvalidRequest({
    loc: ['query', 'cursor'],
    msg: 'This cursor is unknown. Use the `next_cursor` of an earlier answer, or leave it out.',
    type: 'value_error',
    input: value,
  })
