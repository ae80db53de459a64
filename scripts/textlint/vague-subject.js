import { isVague } from '../plain.ts'

/** Reports paragraphs, list items and table cells with a vague subject, by the same test as comments and test titles. */
export default ({ Syntax, RuleError, report, getSource }) => {
  const check = (node) => {
    if (isVague(getSource(node))) report(node, new RuleError('The subject is "what", "who", "nobody" or the like. Name the thing that acts (docs/style.md).'))
  }
  return { [Syntax.Paragraph]: check, [Syntax.TableCell]: check, [Syntax.Header]: check }
}
