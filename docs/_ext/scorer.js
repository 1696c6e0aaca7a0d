// How the search of the site orders what it finds: guides, labs, long lists, the reference, and files of the repository.

var Scorer = {
  score: ([docname, , , , score]) => {
    if (/^docs\/(claims|numbers|exercises)$/.test(docname)) return score + 20; // lists, which have every word
    if (docname.startsWith("docs/")) return score + 55;
    if (docname.startsWith("labs/")) return score + 40;
    return docname.startsWith("files/") ? score - 40 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 4,
  objPrio: { 0: 2, 1: 0, 2: -5 }, // a public name is not better because it is a module
  objPrioDefault: 0,
  title: 45,
  partialTitle: 20,
  term: 5,
  partialTerm: 2,
};
