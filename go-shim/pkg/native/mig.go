package native

// #include "mortise.h"
import "C"

import "unsafe"

// MIGKind is mortise_mig_kind: so many instances of one profile.
type MIGKind struct {
	Profile uint8
	Count   uint8
}

// MIGInstance is mortise_mig_instance: an instance on a node.
type MIGInstance struct {
	Device uint8
	Place  uint8
}

// MIGPlace is a place of a MIG model.
type MIGPlace struct {
	Profile string
	Start   int
	Slices  int
	Media   bool // has the media engines: at most one such instance of a card
}

// MIGModel is a model of cards that can be partitioned, as the library knows it.
type MIGModel struct {
	Name   string
	Places []MIGPlace // by their numbers
}

// MIGModels are the models by their numbers; the first one, number 0, stands for none and has no places.
func MIGModels() []MIGModel { return migModels }

// MIGProfile is the number of a profile; false if the library does not know it.
func MIGProfile(name string) (uint8, bool) {
	number, known := migProfiles[name]
	return number, known
}

var (
	migProfiles = readMIGProfiles()
	migModels   = readMIGModels()
)

func readMIGProfiles() map[string]uint8 {
	out := make(map[string]uint8)
	for i := range 256 {
		name := C.mortise_mig_profile_name(C.uint8_t(i))
		if name == nil {
			break
		}
		out[C.GoString(name)] = uint8(i)
	}
	return out
}

func readMIGModels() []MIGModel {
	out := []MIGModel{{}}
	for number := 1; number < 256; number++ {
		name := C.mortise_mig_model_name(C.uint8_t(number))
		if name == nil {
			break
		}
		model := MIGModel{Name: C.GoString(name)}
		for {
			var place C.mortise_mig_place
			place.struct_size = C.uint32_t(unsafe.Sizeof(place))
			if C.mortise_mig_place_at(C.uint8_t(number), C.uint8_t(len(model.Places)), &place, nil) != C.MORTISE_OK {
				break
			}
			model.Places = append(model.Places, MIGPlace{
				Profile: C.GoString(C.mortise_mig_profile_name(place.profile)), Start: int(place.start),
				Slices: int(place.slices), Media: place.media != 0,
			})
		}
		out = append(out, model)
	}
	return out
}
